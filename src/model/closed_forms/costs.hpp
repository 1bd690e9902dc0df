// Closed forms are made of the cost of a message and the cost of a reduction.
#pragma once

namespace plait::closed_forms {

// A link, or a port that messages share: t_s and B of the papers.
struct LinkCost {
  double start_seconds = 0;
  double bandwidth = 1;  // bytes/s

  double seconds(double bytes) const { return start_seconds + bytes / bandwidth; }
};

// T_R(M): to start a reduction, and to combine its bytes.
struct ReduceCost {
  double start_seconds = 0;
  double seconds_per_byte = 0;

  double seconds(double bytes) const { return start_seconds + bytes * seconds_per_byte; }
};

}  // namespace plait::closed_forms
