// The kernels of two-shot calls, see two_shot_program.hpp. Such a call takes as long as it takes to fetch and execute
// instructions, and for data to cross a link. So these kernels have few instructions, and no loops over slices or over
// the steps of any plan.
#pragma once

#include <cstddef>
#include <iterator>

#include "base/types.hpp"
#include "runtime/cuda/kernels/queue_kernel.hpp"
#include "runtime/cuda/lowering/two_shot_program.hpp"

namespace plait {

// One call: the kernel's argument, passed by value. Channel s has slice s.
struct TwoShotLaunch : Launch {
  TwoShotSteps steps;
};

// A launch has a CTA for each slice. With LL, 1 << group_shift threads share a word, and a thread may have 1, 2 or 4
// words.
inline constexpr int kMostWordsOfThread = 4;
// With LL128 it has any number of threads. A kernel keeps so many lines of a thread, and places of each line, under way
// at once. The best kernel holds everything that a thread has, since every further round takes 2 us and more, however
// few lines it has. Types of one byte have two and three lines in place of three and five, and two places if buffers
// are not aligned, because their sums take more registers.
struct LinesAtOnce {
  int lines, places;
};
inline constexpr LinesAtOnce kLinesAtOnce[] = {{1, 4}, {2, 4}, {3, 4}, {5, 2}};
// The index in this table of the best kernel for threads with so many lines and places: the first that holds all lines,
// or the one that holds most.
constexpr size_t best_lines_at_once(size_t lines, int places) {
  size_t best = 0;
  for (size_t i = 1; i < std::size(kLinesAtOnce); ++i) {
    const bool holds = lines <= static_cast<size_t>(kLinesAtOnce[best].lines);
    if (!holds && places <= kLinesAtOnce[i].places) best = i;
  }
  return best;
}

}  // namespace plait
