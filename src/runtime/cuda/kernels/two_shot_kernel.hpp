// The kernels of two-shot calls, see two_shot_program.hpp. Such a call lasts as long as it takes to fetch and perform
// instructions, and data to cross a link: so they have few of them, and no loops over slices or steps of any plan.
#pragma once

#include <cstddef>
#include <iterator>

#include "base/types.hpp"
#include "runtime/cuda/kernels/queue_kernel.hpp"
#include "runtime/cuda/lowering/two_shot_program.hpp"

namespace plait {

// One call, passed to the kernel by value. Slice s is that of channel s.
struct TwoShotLaunch : Launch {
  TwoShotSteps steps;
};

// What cudaLaunchKernel takes, with a TwoShotLaunch and a CTA for each slice. `is_whole`: for calls whose places in the
// caller's memory begin at multiples of eight bytes and consist of them; the others do a little more. With packets,
// 1 << group_shift threads for each word, where a thread may have 1, 2 or 4 words.
inline constexpr int kMostWordsOfThread = 4;
const void* two_shot_ll(DataType type, int words_of_thread, bool is_aligned);
// The same with lines, and any number of threads. So many lines of a thread and places of each are under way at once;
// best is a kernel in which that is all of a thread's, since every round takes 2 us and more, with however few lines.
// Types of one byte have two and three lines for three and five, and two places where words are not whole: their sums
// take more registers.
struct LinesAtOnce {
  int lines, places;
};
inline constexpr LinesAtOnce kLinesAtOnce[] = {{1, 4}, {2, 4}, {3, 4}, {5, 2}};
// The number in this table of what is best for threads of so many lines and places: the first that holds all lines, or
// that holds most.
constexpr size_t best_lines_at_once(size_t lines, int places) {
  size_t best = 0;
  for (size_t i = 1; i < std::size(kLinesAtOnce); ++i) {
    const bool holds = lines <= static_cast<size_t>(kLinesAtOnce[best].lines);
    if (!holds && places <= kLinesAtOnce[i].places) best = i;
  }
  return best;
}
const void* two_shot_ll128(DataType type, size_t number, bool is_aligned);

}  // namespace plait
