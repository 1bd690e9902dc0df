#include "runtime/cuda/memory/peer_buffers.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.hpp"
#include "runtime/cuda/driver/call_order.hpp"
#include "runtime/cuda/driver/driver.hpp"
#include "runtime/cuda/memory/peer_block.hpp"

namespace plait {
namespace {

// How often the keeper looks for memory to unmap: freed memory may stay occupied that long, or longer.
constexpr auto kBetweenReleases = std::chrono::milliseconds(20);

// Memory is scarce from when less than this part of the GPU's memory is free, until twice as much is free.
constexpr size_t kScarcePart = 32;

}  // namespace

PeerBuffers::PeerBuffers(int device, int rank, ExportsOf exports)
    : device_(device), rank_(rank), exports_(std::move(exports)) {}

PeerBuffers::PeerBuffers(int device, std::span<const int> devices) : device_(device), rank_(-1) {
  const RelaxedCapture relaxed;
  try {
    for (const int other : devices) enable_peer_access(device, other);
  } catch (const Error& error) {
    unreachable_ = error.what();
  }
}

void PeerBuffers::withdraw_all() {
  keeper_.reset();
  for (size_t slot = 0; slot < own_.size(); ++slot) {
    if (own_[slot].allocation != 0) exports_(rank_).allocations[slot].store(0, std::memory_order_release);
  }
  own_ = {};
}

PeerBuffers::~PeerBuffers() {
  const RelaxedCapture relaxed;
  for (const auto& [key, mapping] : mapped_) {
    if (mapping.start != nullptr) cudaIpcCloseMemHandle(mapping.start.get());
  }
}

BufferPlace PeerBuffers::place_of(const void* buffer, size_t bytes) {
  BufferPlace place;
  const std::optional<Allocation> allocation = allocation_of(buffer);
  if (!allocation || !allocation->has_ipc_handle || allocation->device != device_) return place;
  place.offset = static_cast<uint64_t>(static_cast<const std::byte*>(buffer) - allocation->start);
  if (place.offset + bytes > allocation->bytes) return place;  // the user's mistake, which is not reported here
  place.size_in_64_kib = allocation->bytes % (64 << 10) == 0;
  place.allocation = allocation->number;
  place.address = reinterpret_cast<uint64_t>(buffer);
  if (exports_) {
    const std::scoped_lock lock(mutex_);
    place.export_slot = export_slot(allocation->start, allocation->number);
    place.memory_is_scarce = memory_is_scarce();
    if (place.export_slot < 0 || place.memory_is_scarce) return place;
    place.handle = own_[static_cast<size_t>(place.export_slot)].handle;
  }
  place.can_be_mapped = true;
  return place;
}

// The allocation's slot in the table, exporting it first if need be; -1: the table is full, CUDA gives no handle, or
// memory is scarce.
int PeerBuffers::export_slot(const void* start, uint64_t allocation) {
  const auto slot_of = [&](uint64_t number) {
    const auto found =
        std::find_if(own_.begin(), own_.end(), [&](const Export& it) { return it.allocation == number; });
    return found == own_.end() ? -1 : static_cast<int>(found - own_.begin());
  };
  if (const int slot = slot_of(allocation); slot >= 0) return slot;
  withdraw_freed();  // a new allocation may lie where a freed one was that others have mapped
  const int free = slot_of(0);
  if (free < 0) return -1;
  Export made{allocation, start, {}};
  const RelaxedCapture relaxed;
  start_keeper();
  check_memory(memory_left());
  if (memory_is_scarce()) return -1;
  if (cudaIpcGetMemHandle(&made.handle, const_cast<void*>(start)) != cudaSuccess) {
    cudaGetLastError();
    return -1;
  }
  own_[static_cast<size_t>(free)] = made;
  exports_(rank_).allocations[static_cast<size_t>(free)].store(allocation, std::memory_order_release);
  return free;
}

const std::byte* PeerBuffers::map(int rank, const BufferPlace& place, Use& use) {
  if (!place.can_be_mapped) fail(ErrorCode::kResources, "rank ", rank, " has a buffer that others cannot map");
  if (!exports_) {
    if (!unreachable_.empty()) fail(ErrorCode::kResources, unreachable_);
    return reinterpret_cast<const std::byte*>(place.address);
  }
  const std::scoped_lock lock(mutex_);
  const Key key{rank, place.allocation};
  auto found = mapped_.find(key);
  if (found == mapped_.end()) {
    // CUDA cannot map memory while a freed allocation that lay at the same place is still mapped.
    if (has_freed(rank)) fail(ErrorCode::kResources, "rank ", rank, " has freed memory that is still mapped here");
    start_keeper();
    found = mapped_.emplace(key, Mapping{place.export_slot, nullptr, false}).first;
    const RelaxedCapture relaxed;
    void* start = nullptr;
    const cudaError_t error = cudaIpcOpenMemHandle(&start, place.handle, cudaIpcMemLazyEnablePeerAccess);
    if (error == cudaErrorAlreadyMapped) mapped_.erase(found);  // another communicator will unmap it soon
    check_cuda(error, "mapping a buffer of rank ", rank);
    found->second.start = {static_cast<std::byte*>(start), [](std::byte*) {}};
  }
  Mapping& mapping = found->second;
  if (mapping.start == nullptr) fail(ErrorCode::kResources, "a buffer of rank ", rank, " could not be mapped");
  if (use.is_captured) mapping.is_in_graph = true;
  use.mapped.push_back(mapping.start);
  return mapping.start.get() + place.offset;
}

void PeerBuffers::start_keeper() {
  if (!keeper_) keeper_.emplace(kBetweenReleases, [this] { poll(); });
}

void PeerBuffers::poll() {
  // This is the keeper's thread. Its previous device is not restored: that would create a context on another GPU.
  if (cudaSetDevice(device_) != cudaSuccess) return;
  const RelaxedCapture relaxed;
  // Unmapping waits until the GPU is idle, and blocks all launches of this process meanwhile.
  const bool done =
      !check_exports(memory_left()) ||
      CallOrder::while_none_runs(throttle_.for_try(std::chrono::steady_clock::now()), [&] { unmap_due(); });
  if (done) throttle_.reset();
}

// Returns whether there is anything to unmap.
bool PeerBuffers::check_exports(const MemoryLeft& left) {
  const std::scoped_lock lock(mutex_);
  withdraw_freed();
  check_memory(left);
  return std::any_of(mapped_.begin(), mapped_.end(), [&](const auto& it) { return is_due(it); });
}

void PeerBuffers::unmap_due() {
  std::vector<std::shared_ptr<std::byte>> due;
  {
    const std::scoped_lock lock(mutex_);
    for (auto it = mapped_.begin(); it != mapped_.end();) {
      if (!is_due(*it)) {
        ++it;
        continue;
      }
      if (it->second.start != nullptr) due.push_back(std::move(it->second.start));
      it = mapped_.erase(it);
    }
  }
  for (const auto& start : due) cudaIpcCloseMemHandle(start.get());
}

// Tells the other ranks which exported allocations this rank has freed.
void PeerBuffers::withdraw_freed() {
  for (size_t slot = 0; slot < own_.size(); ++slot) {
    Export& own = own_[slot];
    if (own.allocation == 0) continue;
    const std::optional<Allocation> there = allocation_of(own.start);
    if (there && there->number == own.allocation) continue;
    exports_(rank_).allocations[slot].store(0, std::memory_order_release);
    own = {};
  }
}

// Tells the other ranks whether they may keep this rank's exported allocations mapped.
void PeerBuffers::check_memory(const MemoryLeft& left) {
  if (left.total == 0) return;
  const size_t enough = left.total / kScarcePart * (memory_is_scarce() ? 2 : 1);
  exports_(rank_).are_wanted_back.store(left.free < enough ? 1 : 0, std::memory_order_relaxed);
}

PeerBuffers::MemoryLeft PeerBuffers::memory_left() {
  MemoryLeft left;
  if (cudaMemGetInfo(&left.free, &left.total) == cudaSuccess) return left;
  cudaGetLastError();
  return {};
}

bool PeerBuffers::memory_is_scarce() const {
  return exports_(rank_).are_wanted_back.load(std::memory_order_relaxed) != 0;
}

// Whether the owner has freed an allocation that this rank still has mapped.
bool PeerBuffers::is_freed(const Mapped& it) const {
  const auto& [key, mapping] = it;
  const auto slot = static_cast<size_t>(mapping.export_slot);
  return exports_(key.first).allocations[slot].load(std::memory_order_acquire) != key.second;
}

// Whether this rank has to unmap the allocation now; not while a call is about to use it.
bool PeerBuffers::is_due(const Mapped& it) const {
  const auto& [key, mapping] = it;
  if (mapping.start.use_count() > 1) return false;
  if (is_freed(it)) return true;
  return exports_(key.first).are_wanted_back.load(std::memory_order_relaxed) != 0 && !mapping.is_in_graph;
}

bool PeerBuffers::has_freed(int rank) const {
  return std::any_of(mapped_.begin(), mapped_.end(),
                     [&](const auto& it) { return it.first.first == rank && is_freed(it); });
}

size_t PeerBuffers::mapped() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<size_t>(
      std::count_if(mapped_.begin(), mapped_.end(), [](const auto& it) { return it.second.start != nullptr; }));
}

}  // namespace plait
