// How something is timed, from the arguments of Python's functions.
#pragma once

#include "bench/measure.hpp"

namespace plait::python {

inline MeasureOptions options_of(int iterations, int warmup, int cycles, bool in_place, bool check,
                                 bool multiplied = false) {
  MeasureOptions options;
  options.iterations = iterations;
  options.warmup = warmup;
  options.cycles = cycles;
  options.in_place = in_place;
  options.check = check;
  options.multiplied = multiplied;
  return options;
}

}  // namespace plait::python
