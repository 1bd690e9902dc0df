// A copy within one GPU by a few CTAs, while copy engines copy between GPUs. In a graph, a copy engine would perform it
// only after those copies.
#pragma once

#include <cuda_runtime.h>

#include "runtime/cuda/kernels/catalogue.hpp"
#include "runtime/cuda/zero_copy/copy_program.hpp"
#include "tuner/choice.hpp"

namespace plait {

inline constexpr int kCopyCtas = kOwnCopySms;
inline constexpr int kCopyThreads = most_threads(KernelFamily::kCopy);

// The kernel for cudaLaunchKernel. It takes a PlacedCopy, kCopyCtas CTAs and kCopyThreads threads per CTA.
const void* copy_kernel();

}  // namespace plait
