// A copy within one GPU by a few CTAs, beside copies between GPUs: in a graph, a copy engine would perform it after
// those.
#pragma once

#include <cuda_runtime.h>

#include "runtime/cuda/kernels/catalogue.hpp"
#include "runtime/cuda/zero_copy/copy_program.hpp"
#include "tuner/choice.hpp"

namespace plait {

inline constexpr int kCopyCtas = kOwnCopySms;
inline constexpr int kCopyThreads = most_threads(KernelFamily::kCopy);

// What cudaLaunchKernel takes, with a PlacedCopy, kCopyCtas CTAs and kCopyThreads threads each.
const void* copy_kernel();

}  // namespace plait
