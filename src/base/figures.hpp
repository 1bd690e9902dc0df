// Figures in a few digits, for people.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace plait {

// "1 rank", "4 ranks".
template <class Integer>
std::string counted(Integer count, std::string_view what) {
  return join(count, " ", what, count == 1 ? "" : "s");
}

// `form` is printf's, for one double.
inline std::string digits(double number, const char* form) {
  char text[48];
  std::snprintf(text, sizeof text, form, number);
  return text;
}
// In three figures, or as many as a whole number below a million has: "0.0123", "12.3", "1093".
inline std::string digits(double number) {
  const double size = number < 0 ? -number : number;
  return digits(number, size >= 999.5 && size < 1e6 ? "%.0f" : "%.3g");
}

// "12.3 us", "4 ms", "2 s".
inline std::string seconds_text(double seconds) {
  if (seconds >= 1) return digits(seconds) + " s";
  if (seconds >= 1e-3) return digits(seconds * 1e3) + " ms";
  return digits(seconds * 1e6) + " us";
}

// Bytes in the units that --bytes and nccl-tests take, where 64M is 64 MiB: "64 MiB", "1.5 KiB", "17 bytes". They have
// three figures or four.
inline std::string bytes_text(double bytes, int figures = 4) {
  constexpr struct {
    double size;
    const char* name;
  } kUnits[] = {{0x1p30, " GiB"}, {0x1p20, " MiB"}, {0x1p10, " KiB"}};
  for (const auto& unit : kUnits) {
    if (bytes < unit.size) continue;
    const double number = bytes / unit.size;
    return digits(number, figures < 4 && number < 999.5 ? "%.3g" : "%.4g") + unit.name;
  }
  return digits(bytes, "%.0f") + (bytes == 1 ? " byte" : " bytes");
}

// The text, and spaces up to so many columns.
inline std::string in_columns(std::string text, size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

}  // namespace plait
