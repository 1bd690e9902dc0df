// User buffers, as the GPUs of other ranks address them. Users register nothing: a rank tells the others in which
// allocation a buffer lies, and they map that allocation once. They keep it mapped until its owner has freed it or is
// short of memory, because CUDA does not release freed memory while anyone has it mapped. Ranks of one process use the
// same addresses and map nothing.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/periodic.hpp"
#include "runtime/cuda/driver/throttle.hpp"
#include "runtime/exports.hpp"

namespace plait {

// The location of a buffer, in terms that all ranks can use.
struct BufferPlace {
  bool can_be_mapped = false;
  bool memory_is_scarce = false;  // the reason that it cannot be mapped
  bool size_in_64_kib = false;    // the allocation's size is a multiple of 64 KiB: the driver handles others worse
  int32_t export_slot = 0;        // in the owner's table of exported allocations
  uint64_t allocation = 0;        // its number, unique among all allocations that a process ever makes
  uint64_t offset = 0;            // of the buffer in its allocation
  uint64_t address = 0;           // all that ranks of the same process need
  cudaIpcMemHandle_t handle = {};
};

class PeerBuffers {
 public:
  using ExportsOf = std::function<Exports&(int rank)>;

  // The mappings that a call uses. While this exists, until the call has been enqueued, none of them is unmapped.
  struct Use {
    bool is_captured = false;  // for a graph: stays mapped until it is freed
    std::vector<std::shared_ptr<const std::byte>> mapped;
  };

  // For a rank of a communicator in which every rank is a process of its own.
  PeerBuffers(int device, int rank, ExportsOf exports);
  // For a rank of a communicator whose ranks are all in this process, on `devices`.
  PeerBuffers(int device, std::span<const int> devices);
  // Waits until the GPU is idle. No copy of this rank may use mapped memory any more by then.
  ~PeerBuffers();
  PeerBuffers(const PeerBuffers&) = delete;
  PeerBuffers& operator=(const PeerBuffers&) = delete;

  // Finds the location of this rank's buffer. Others cannot map it in three cases. It is not memory of cudaMalloc on
  // this rank's GPU (expandable segments, asynchronous pools and host memory are not). Too many allocations are
  // exported already. Or memory is scarce.
  BufferPlace place_of(const void* buffer, size_t bytes);
  // The buffer of `rank` as this rank's GPU addresses it. Throws kSystem or kResources if it cannot be mapped.
  const std::byte* map(int rank, const BufferPlace& place, Use& use);

  // Withdraws everything that this rank has exported. Only the destructor may follow; it does not need the table of
  // exported allocations any more.
  void withdraw_all();

  // How many allocations of other ranks are mapped at the moment.
  size_t mapped() const;

 private:
  struct Export {
    uint64_t allocation = 0;  // 0: free
    const void* start = nullptr;
    cudaIpcMemHandle_t handle = {};
  };
  struct Mapping {
    int export_slot = 0;
    std::shared_ptr<std::byte> start;  // null: mapping failed, and is not tried again
    bool is_in_graph = false;
  };
  struct MemoryLeft {
    size_t free = 0, total = 0;  // bytes of the GPU; 0: unknown
  };
  using Key = std::pair<int, uint64_t>;  // rank and number of an allocation
  using Mapped = std::map<Key, Mapping>::value_type;

  // The caller of these holds the mutex.
  int export_slot(const void* start, uint64_t allocation);
  void withdraw_freed();
  void check_memory(const MemoryLeft& left);
  bool memory_is_scarce() const;
  bool is_freed(const Mapped& it) const;
  bool is_due(const Mapped& it) const;
  bool has_freed(int rank) const;
  void start_keeper();

  // The keeper's work: withdraws exported allocations that this rank has freed, and unmaps those of other ranks that
  // their owners have freed or want back. It has a thread of its own, since unmapping waits for the GPU.
  void poll();
  static MemoryLeft memory_left();
  bool check_exports(const MemoryLeft& left);
  void unmap_due();

  const int device_;
  const int rank_;
  const ExportsOf exports_;  // empty: all ranks are in this process
  std::string
      unreachable_;  // if all ranks are in this process: why this rank cannot access all their buffers; or empty
  mutable std::mutex mutex_;
  std::array<Export, kMostExports> own_;
  std::map<Key, Mapping> mapped_;
  Throttle throttle_;               // of the keeper, while there is something to unmap
  std::optional<Periodic> keeper_;  // exists from the first export or mapping on
};

}  // namespace plait
