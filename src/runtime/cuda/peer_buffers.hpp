// The buffers of users, as the GPUs of other ranks address them. Nobody registers anything: a rank tells the others in
// which allocation a buffer lies, and they map that once and keep it mapped until its owner has freed it. Within one
// process an address serves all.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/periodic.hpp"
#include "runtime/offers.hpp"

namespace plait {

// Where a buffer lies, in words that all ranks can use.
struct BufferPlace {
  bool can_be_mapped = false;
  bool size_in_64_kib = false;  // that of the allocation is a multiple: the driver serves others worse
  int32_t export_slot = 0;      // see PeerBuffers
  uint64_t allocation = 0;      // its number: different for all allocations that a process ever makes
  uint64_t offset = 0;          // of the buffer in its allocation
  uint64_t address = 0;         // for ranks of the same process, who need nothing else
  cudaIpcMemHandle_t handle = {};
};

class PeerBuffers {
 public:
  // What each rank has exported: Segment::exports().
  using Exports = std::function<std::atomic<uint64_t>*(int rank)>;

  // Of a rank whose others are processes of their own each.
  PeerBuffers(int device, int rank, Exports exports);
  // Of a rank whose process has all others as well, on `devices`.
  PeerBuffers(int device, std::span<const int> devices);
  // No copy of this rank uses what it has mapped by then.
  ~PeerBuffers();
  PeerBuffers(const PeerBuffers&) = delete;
  PeerBuffers& operator=(const PeerBuffers&) = delete;

  // Where this rank's buffer lies. It cannot be mapped where it is not memory of cudaMalloc on its GPU, as it is with
  // expandable segments, asynchronous pools and host memory, or where too many allocations are exported already.
  BufferPlace place_of(const void* buffer, size_t bytes);
  // The buffer of `rank` as this rank's GPU addresses it. Throws kSystem or kResources where that cannot be had.
  const std::byte* map(int rank, const BufferPlace& place);

  // Allocations that are mapped at the moment.
  size_t mapped() const;

 private:
  struct Export {
    uint64_t allocation = 0;  // 0: free
    const void* start = nullptr;
    cudaIpcMemHandle_t handle = {};
  };
  struct Mapping {
    int export_slot = 0;
    std::byte* start = nullptr;  // null: it could not be mapped, and need not be tried again
  };
  using Key = std::pair<int, uint64_t>;  // rank and number of an allocation

  // All of these under the lock.
  int export_slot(const void* start, uint64_t allocation);
  void withdraw_freed();
  bool has_freed(int rank) const;
  std::vector<std::byte*> take_freed();
  void start_keeper();

  // Lets go of what this rank or, of what it has mapped, its owner has freed: on a thread of its own, since closing may
  // wait for the GPU.
  void look();

  const int device_;
  const int rank_;
  const Exports exports_;    // none: all ranks are in this process
  std::string unreachable_;  // why this rank does not reach the buffers of all others there, if so
  mutable std::mutex mutex_;
  std::array<Export, kMostExports> own_;
  std::map<Key, Mapping> mapped_;
  std::optional<Periodic> keeper_;  // from the first export or mapping on
};

}  // namespace plait
