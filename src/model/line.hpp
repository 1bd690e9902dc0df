// Times that grow with the message.
#pragma once

#include <cmath>

namespace plait {

// A time in seconds: a start, and a slope for each byte.
struct Line {
  double start = 0;
  double per_byte = 0;

  // For infinitely many bytes only the slope counts.
  double at(double bytes) const { return std::isinf(bytes) ? per_byte : start + per_byte * bytes; }
};

}  // namespace plait
