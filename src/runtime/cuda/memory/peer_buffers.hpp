// The buffers of users, as the GPUs of other ranks address them. Nobody registers anything: a rank tells the others in
// which allocation a buffer lies, and they map that once and keep it mapped until its owner has freed it, or has little
// memory left: CUDA keeps what is freed as long as anyone has it mapped. Within one process an address serves all.
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

// Where a buffer lies, in words that all ranks can use.
struct BufferPlace {
  bool can_be_mapped = false;
  bool memory_is_scarce = false;  // which is why it cannot
  bool size_in_64_kib = false;    // that of the allocation is a multiple: the driver serves others worse
  int32_t export_slot = 0;        // see PeerBuffers
  uint64_t allocation = 0;        // its number: different for all allocations that a process ever makes
  uint64_t offset = 0;            // of the buffer in its allocation
  uint64_t address = 0;           // for ranks of the same process, who need nothing else
  cudaIpcMemHandle_t handle = {};
};

class PeerBuffers {
 public:
  using ExportsOf = std::function<Exports&(int rank)>;

  // What a call has mapped, from then on until it has been enqueued: meanwhile nothing is let go of.
  struct Use {
    bool is_captured = false;  // then it stays mapped until it is freed, for its graph
    std::vector<std::shared_ptr<const std::byte>> mapped;
  };

  // Of a rank whose others are processes of their own each.
  PeerBuffers(int device, int rank, ExportsOf exports);
  // Of a rank whose process has all others as well, on `devices`.
  PeerBuffers(int device, std::span<const int> devices);
  // No copy of this rank uses what it has mapped by then. Waits until the GPU is idle.
  ~PeerBuffers();
  PeerBuffers(const PeerBuffers&) = delete;
  PeerBuffers& operator=(const PeerBuffers&) = delete;

  // Where this rank's buffer lies. It cannot be mapped where it is not memory of cudaMalloc on its GPU, as it is with
  // expandable segments, asynchronous pools and host memory, where too many allocations are exported already, or where
  // little memory is left.
  BufferPlace place_of(const void* buffer, size_t bytes);
  // The buffer of `rank` as this rank's GPU addresses it. Throws kSystem or kResources where that cannot be had.
  const std::byte* map(int rank, const BufferPlace& place, Use& use);

  // Takes back what this rank has exported. Nothing follows but the end, for which that of others is no longer needed.
  void withdraw_all();

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
    std::shared_ptr<std::byte> start;  // null: it could not be mapped, and need not be tried again
    bool is_in_graph = false;
  };
  struct MemoryLeft {
    size_t free = 0, total = 0;  // bytes of the GPU; none: it is not known
  };
  using Key = std::pair<int, uint64_t>;  // rank and number of an allocation
  using Mapped = std::map<Key, Mapping>::value_type;

  // All of these under the lock.
  int export_slot(const void* start, uint64_t allocation);
  void withdraw_freed();
  void check_memory(const MemoryLeft& left);
  bool memory_is_scarce() const;
  bool is_freed(const Mapped& it) const;
  bool is_to_go(const Mapped& it) const;
  bool has_freed(int rank) const;
  void start_keeper();

  // Lets go of what this rank or, of what it has mapped, its owner has freed or wants back: on a thread of its own, as
  // closing waits for the GPU.
  void poll();
  static MemoryLeft memory_left();
  bool check_exports(const MemoryLeft& left);
  void let_go();

  const int device_;
  const int rank_;
  const ExportsOf exports_;  // none: all ranks are in this process
  std::string unreachable_;  // why this rank does not reach the buffers of all others there, if so
  mutable std::mutex mutex_;
  std::array<Export, kMostExports> own_;
  std::map<Key, Mapping> mapped_;
  Throttle throttle_;               // of the keeper, while something is to go
  std::optional<Periodic> keeper_;  // from the first export or mapping on
};

}  // namespace plait
