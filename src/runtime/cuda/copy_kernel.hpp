// A copy within one GPU by a few CTAs, beside copies between GPUs: in a graph, a copy engine would perform it after
// those.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "tuner/selection.hpp"

namespace plait {

// Passed to the kernel by value. Both places are at the same distance from a multiple of 16 bytes.
struct CopyLaunch {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  uint64_t bytes = 0;
};

inline constexpr int kCopyCtas = kOwnCopySms;
inline constexpr int kCopyThreads = 1024;

// What cudaLaunchKernel takes, with a CopyLaunch, kCopyCtas CTAs and kCopyThreads threads each.
const void* copy_kernel();

}  // namespace plait
