#include "runtime/cuda/peer_buffers.hpp"

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "runtime/cuda/driver.hpp"

namespace plait {

PeerBuffers::PeerBuffers(int device, int rank, Exports exports)
    : device_(device), rank_(rank), exports_(std::move(exports)) {}

PeerBuffers::~PeerBuffers() = default;

BufferPlace PeerBuffers::place_of(const void* buffer, size_t bytes) {
  BufferPlace place;
  const std::optional<Allocation> allocation = allocation_of(buffer);
  if (!allocation || !allocation->has_ipc_handle) return place;
  place.offset = static_cast<uint64_t>(static_cast<const std::byte*>(buffer) - allocation->start);
  if (place.offset + bytes > allocation->bytes) return place;  // an error of the caller's, and not ours to find
  const std::scoped_lock lock(mutex_);
  place.export_slot = export_slot(allocation->start, allocation->number);
  if (place.export_slot < 0) return place;
  place.can_be_mapped = true;
  place.allocation = allocation->number;
  place.handle = own_[place.export_slot].handle;
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
  own_[free] = made;
  has_any_ = true;
  exports_(rank_)[free].store(allocation, std::memory_order_release);
  return free;
}

const std::byte* PeerBuffers::map(int rank, const BufferPlace& place) {
  if (!place.can_be_mapped) fail(ErrorCode::kResources, "rank ", rank, " has a buffer that others cannot map");
  const CaptureAside aside;
  const std::scoped_lock lock(mutex_);
  const Key key{rank, place.allocation};
  auto found = mapped_.find(key);
  if (found == mapped_.end()) {
    take_freed();  // CUDA maps no memory where it still has mapped what lay there before
    has_any_ = true;
    found = mapped_.emplace(key, Mapping{place.export_slot, nullptr, std::make_unique<Cleanup>()}).first;
    found->second.start = map_ipc_block(place.handle, *found->second.cleanup);
  }
  if (found->second.start == nullptr) fail(ErrorCode::kResources, "a buffer of rank ", rank, " could not be mapped");
  return found->second.start + place.offset;
}

void PeerBuffers::look_after() {
  if (!has_any_.load(std::memory_order_relaxed)) return;
  const DeviceGuard guard(device_);
  const CaptureAside aside;
  Cleanups freed;  // ends without the lock: closing may wait for the GPU
  const std::scoped_lock lock(mutex_);
  withdraw_freed();
  freed = take_freed();
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

// What its owner has freed, to be let go of.
PeerBuffers::Cleanups PeerBuffers::take_freed() {
  Cleanups freed;
  for (auto it = mapped_.begin(); it != mapped_.end();) {
    auto& [key, mapping] = *it;
    if (exports_(key.first)[mapping.export_slot].load(std::memory_order_acquire) == key.second) {
      ++it;
    } else {
      freed.push_back(std::move(mapping.cleanup));
      it = mapped_.erase(it);
    }
  }
  return freed;
}

size_t PeerBuffers::mapped() const {
  const std::scoped_lock lock(mutex_);
  return mapped_.size();
}

}  // namespace plait
