// The kernel of calls of one step, see one_step_program.hpp. It lasts as long as it takes to fetch and perform its
// instructions, and data to cross a link: so it has few of them, and no loops over steps or slices.
#pragma once

#include "base/types.hpp"
#include "runtime/cuda/lane_kernel.hpp"
#include "runtime/cuda/one_step_program.hpp"

namespace plait {

// One call, passed to the kernel by value. Slice s is that of strand s.
struct OneStepLaunch : Launch {
  uint32_t group_shift = 0;
  int32_t combined = 0;
  SliceProgram slice;  // of which no steps are used
  OneStepProgram::Slice full, last;
};

// A thread has 1, 2 or 4 words.
inline constexpr int kMostWordsOfThread = 4;

// What cudaLaunchKernel takes, with a OneStepLaunch, a CTA for each slice, and threads for all places of all words.
const void* one_step_kernel(DataType type, int words_of_thread);

}  // namespace plait
