#include "runtime/cuda/peer_buffers.hpp"

#include <algorithm>
#include <chrono>

#include "base/error.hpp"
#include "runtime/cuda/driver.hpp"
#include "runtime/cuda/peer_block.hpp"

namespace plait {
namespace {

// So long may memory that was freed be kept from others, at least.
constexpr auto kBetweenReleases = std::chrono::milliseconds(20);

}  // namespace

PeerBuffers::PeerBuffers(int device, int rank, Exports exports)
    : device_(device), rank_(rank), exports_(std::move(exports)) {}

PeerBuffers::PeerBuffers(int device, std::span<const int> devices) : device_(device), rank_(-1) {
  const CaptureAside aside;
  try {
    for (const int other : devices) enable_peer_access(device, other);
  } catch (const Error& error) {
    unreachable_ = error.what();
  }
}

PeerBuffers::~PeerBuffers() {
  keeper_.reset();
  const CaptureAside aside;
  for (size_t slot = 0; slot < own_.size(); ++slot) {
    if (own_[slot].allocation != 0) exports_(rank_)[slot].store(0, std::memory_order_release);
  }
  for (const auto& [key, mapping] : mapped_) {
    if (mapping.start != nullptr) cudaIpcCloseMemHandle(mapping.start);
  }
}

BufferPlace PeerBuffers::place_of(const void* buffer, size_t bytes) {
  BufferPlace place;
  const std::optional<Allocation> allocation = allocation_of(buffer);
  if (!allocation || !allocation->has_ipc_handle || allocation->device != device_) return place;
  place.offset = static_cast<uint64_t>(static_cast<const std::byte*>(buffer) - allocation->start);
  if (place.offset + bytes > allocation->bytes) return place;  // an error of the caller's, and not ours to find
  place.size_in_64_kib = allocation->bytes % (64 << 10) == 0;
  place.allocation = allocation->number;
  place.address = reinterpret_cast<uint64_t>(buffer);
  if (exports_) {
    const std::scoped_lock lock(mutex_);
    place.export_slot = export_slot(allocation->start, allocation->number);
    if (place.export_slot < 0) return place;
    place.handle = own_[static_cast<size_t>(place.export_slot)].handle;
  }
  place.can_be_mapped = true;
  return place;
}

// Where the allocation is in the table; -1: it is full, or there is no handle to be had.
int PeerBuffers::export_slot(const void* start, uint64_t allocation) {
  const auto slot_of = [&](uint64_t number) {
    const auto found =
        std::find_if(own_.begin(), own_.end(), [&](const Export& it) { return it.allocation == number; });
    return found == own_.end() ? -1 : static_cast<int>(found - own_.begin());
  };
  if (const int slot = slot_of(allocation); slot >= 0) return slot;
  withdraw_freed();  // a new allocation may lie where one was that others have mapped
  const int free = slot_of(0);
  if (free < 0) return -1;
  Export made{allocation, start, {}};
  const CaptureAside aside;
  if (cudaIpcGetMemHandle(&made.handle, const_cast<void*>(start)) != cudaSuccess) {
    cudaGetLastError();
    return -1;
  }
  start_keeper();
  own_[static_cast<size_t>(free)] = made;
  exports_(rank_)[free].store(allocation, std::memory_order_release);
  return free;
}

const std::byte* PeerBuffers::map(int rank, const BufferPlace& place) {
  if (!place.can_be_mapped) fail(ErrorCode::kResources, "rank ", rank, " has a buffer that others cannot map");
  if (!exports_) {
    if (!unreachable_.empty()) fail(ErrorCode::kResources, unreachable_);
    return reinterpret_cast<const std::byte*>(place.address);
  }
  const std::scoped_lock lock(mutex_);
  const Key key{rank, place.allocation};
  auto found = mapped_.find(key);
  if (found == mapped_.end()) {
    // CUDA maps nothing where it still has mapped what lay there before.
    if (has_freed(rank)) fail(ErrorCode::kResources, "rank ", rank, " has freed memory that is still to be let go of");
    start_keeper();
    found = mapped_.emplace(key, Mapping{place.export_slot, nullptr}).first;
    const CaptureAside aside;
    void* start = nullptr;
    const cudaError_t error = cudaIpcOpenMemHandle(&start, place.handle, cudaIpcMemLazyEnablePeerAccess);
    if (error == cudaErrorAlreadyMapped) mapped_.erase(found);  // another communicator lets go of it soon
    check_cuda(error, "mapping a buffer of rank ", rank);
    found->second.start = static_cast<std::byte*>(start);
  }
  if (found->second.start == nullptr) fail(ErrorCode::kResources, "a buffer of rank ", rank, " could not be mapped");
  return found->second.start + place.offset;
}

void PeerBuffers::start_keeper() {
  if (!keeper_) keeper_.emplace(kBetweenReleases, [this] { look(); });
}

void PeerBuffers::look() {
  // Of the keeper's thread, and never set back: that would make a context on another GPU.
  if (cudaSetDevice(device_) != cudaSuccess) return;
  const CaptureAside aside;
  std::vector<std::byte*> freed;
  {
    const std::scoped_lock lock(mutex_);
    withdraw_freed();
    freed = take_freed();
  }
  for (std::byte* const start : freed) cudaIpcCloseMemHandle(start);
}

// Tells the others of what this rank has freed.
void PeerBuffers::withdraw_freed() {
  for (size_t slot = 0; slot < own_.size(); ++slot) {
    Export& own = own_[slot];
    if (own.allocation == 0) continue;
    const std::optional<Allocation> there = allocation_of(own.start);
    if (there && there->number == own.allocation) continue;
    exports_(rank_)[slot].store(0, std::memory_order_release);
    own = {};
  }
}

// Whether this rank still has mapped what that one has freed.
bool PeerBuffers::has_freed(int rank) const {
  return std::any_of(mapped_.begin(), mapped_.end(), [&](const auto& it) {
    const auto& [key, mapping] = it;
    return key.first == rank && exports_(rank)[mapping.export_slot].load(std::memory_order_acquire) != key.second;
  });
}

// What its owner has freed, to be let go of.
std::vector<std::byte*> PeerBuffers::take_freed() {
  std::vector<std::byte*> freed;
  for (auto it = mapped_.begin(); it != mapped_.end();) {
    const auto& [key, mapping] = *it;
    if (exports_(key.first)[mapping.export_slot].load(std::memory_order_acquire) == key.second) {
      ++it;
      continue;
    }
    if (mapping.start != nullptr) freed.push_back(mapping.start);
    it = mapped_.erase(it);
  }
  return freed;
}

size_t PeerBuffers::mapped() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<size_t>(
      std::count_if(mapped_.begin(), mapped_.end(), [](const auto& it) { return it.second.start != nullptr; }));
}

}  // namespace plait
