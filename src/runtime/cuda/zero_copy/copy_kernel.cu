// The kernel for copies within one GPU.
#include "runtime/cuda/device/copy_bytes.cuh"
#include "runtime/cuda/zero_copy/copy_kernel.hpp"

namespace plait {
namespace {

constexpr int kAtOnce = 8;  // loads of a thread that are under way: few CTAs need so many to keep up with a link

__global__ void __launch_bounds__(kCopyThreads, 1) run_copy(const __grid_constant__ PlacedCopy copy) {
  const uint64_t thread = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  // A constant, so that the addresses of a thread's loads and stores differ by constants, which take no registers.
  constexpr uint64_t kThreads = uint64_t{kCopyCtas} * kCopyThreads;
  copy_bytes<kAtOnce, PeerSide::kSource>(copy.to, copy.from, copy.bytes, thread, kThreads);
}

}  // namespace

const void* copy_kernel() { return reinterpret_cast<const void*>(&run_copy); }

}  // namespace plait
