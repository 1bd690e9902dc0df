#include "runtime/cuda/memory/premul_memory.hpp"

#include <cstdint>

#include "base/error.hpp"
#include "runtime/cuda/driver/driver.hpp"

namespace plait {
namespace {

// How much memory the pool keeps from call to call. By default it returns everything whenever the host waits for the
// GPU, and getting it again takes longer than most collectives.
constexpr uint64_t kMostKeptBytes = uint64_t{64} << 20;
constexpr size_t kAlignment = 16;

}  // namespace

PremulMemory::PremulMemory(int device) : device_(device) {
  int supported = 0;
  check_cuda(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, device), "asking for memory pools");
  if (supported == 0) return;
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  check_cuda(cudaMemPoolCreate(&pool_, &properties), "making a pool of memory");
  uint64_t kept = kMostKeptBytes;
  check_cuda(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &kept), "setting up a pool of memory");
}

PremulMemory::~PremulMemory() {
  // Not on the default stream, because that would invalidate captures of other threads.
  for (const Kept& kept : kept_) cudaFreeAsync(kept.memory, cudaStreamPerThread);
  if (pool_ != nullptr) cudaMemPoolDestroy(pool_);
}

PremulMemory::Piece::~Piece() {
  if (taken_ != nullptr && cudaFreeAsync(taken_, stream_) != cudaSuccess) cudaGetLastError();
}

void PremulMemory::take(size_t bytes, const void* like, cudaStream_t stream, Piece& piece) {
  if (pool_ == nullptr) {
    fail(ErrorCode::kSystem, "GPU ", device_,
         " has no memory pools; a pre-multiplied sum needs one if it may not write its products into the user's output "
         "buffer; all_reduce and the root of a reduce need none");
  }
  const size_t within = reinterpret_cast<uintptr_t>(like) % kAlignment;
  if (is_captured(stream)) {
    piece.usable_ = static_cast<std::byte*>(keep(bytes + within)) + within;
    return;
  }
  check_cuda(cudaMallocFromPoolAsync(&piece.taken_, bytes + within, pool_, stream), bytes,
             " bytes for the products of a pre-multiplied sum");
  piece.stream_ = stream;
  piece.usable_ = static_cast<std::byte*>(piece.taken_) + within;
}

void* PremulMemory::keep(size_t bytes) {
  if (!kept_.empty() && kept_.back().bytes >= bytes) return kept_.back().memory;
  const RelaxedCapture relaxed;
  const OwnStream stream;  // so that the memory belongs to no graph
  Kept kept{nullptr, bytes};
  check_cuda(cudaMallocFromPoolAsync(&kept.memory, bytes, pool_, stream.get()), bytes,
             " bytes for the products of a captured pre-multiplied sum");
  kept_.push_back(kept);
  return kept.memory;
}

}  // namespace plait
