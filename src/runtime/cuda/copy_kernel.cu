// The kernel of copies within one GPU.
#include "runtime/cuda/copy_kernel.hpp"
#include "runtime/cuda/copy_words.cuh"

namespace plait {
namespace {

constexpr int kAtOnce = 8;  // loads of a thread that are under way: what a few CTAs need to keep up with a link

__global__ void __launch_bounds__(kCopyThreads, 1) run_copy(const __grid_constant__ CopyLaunch launch) {
  const uint64_t thread = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  // Constant, so that the places of a thread's loads and stores differ by constants, which take no registers.
  constexpr uint64_t kThreads = uint64_t{kCopyCtas} * kCopyThreads;
  const uint64_t to_boundary = -reinterpret_cast<uintptr_t>(launch.from) % sizeof(uint4);
  const uint64_t head = to_boundary < launch.bytes ? to_boundary : launch.bytes;
  const uint64_t words = (launch.bytes - head) / sizeof(uint4);
  const auto* const in = reinterpret_cast<const uint4*>(launch.from + head);
  auto* const out = reinterpret_cast<uint4*>(launch.to + head);
  copy_words<kAtOnce>(out, in, words, thread, kThreads);
  // Fewer than two words' bytes are left at the ends.
  const uint64_t tail = head + words * sizeof(uint4);
  if (thread < head) launch.to[thread] = launch.from[thread];
  if (thread < launch.bytes - tail) launch.to[tail + thread] = launch.from[tail + thread];
}

}  // namespace

const void* copy_kernel() { return reinterpret_cast<const void*>(&run_copy); }

}  // namespace plait
