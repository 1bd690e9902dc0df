// Memory of every rank's GPU that the GPUs of all ranks can load from and store to. This is the library's own memory;
// for user buffers see peer_buffers.hpp. See docs/gpu/peer_memory.md.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/settings.hpp"
#include "runtime/bootstrap.hpp"
#include "topology/gpu_models.hpp"

namespace plait {

// Identifies a device of this process, so that it can be found in a topology. Throws kSystem with CUDA's error.
GpuIdentity identity_of(int device);

class PeerMemory {
 public:
  // Collective over the ranks of `bootstrap`. Every rank makes `bytes` of zeroed memory on its `device` and maps the
  // memory of all others. kAuto takes the first kind that works for all ranks: kVmm, kIpc, kHost. Ranks may share
  // devices and processes, and see different devices (CUDA_VISIBLE_DEVICES).
  //
  // Throws on all ranks alike: kResources if no kind works, with rank, device and reason for each kind; kMismatch if
  // ranks want different things; kInvalidArgument for 0 bytes. If a rank cannot use its device, all throw CUDA's error.
  static PeerMemory create(Bootstrap& bootstrap, int device, size_t bytes, PeerMemoryKind wanted);
  // The same for ranks that are all in this process, rank r on devices[r].
  static std::vector<PeerMemory> in_process(std::span<const int> devices, size_t bytes, PeerMemoryKind wanted);

  PeerMemory(PeerMemory&&) noexcept;
  PeerMemory& operator=(PeerMemory&&) noexcept;
  // Not collective: ranks may destroy theirs in any order. No kernel of this rank may use any rank's memory by then.
  ~PeerMemory();

  // The memory of `rank`, as this rank's device addresses it.
  std::byte* of(int rank) const;
  size_t bytes() const;  // of each rank, as requested
  PeerMemoryKind kind() const;
  int device() const;
  // The device of `rank`, as this process numbers devices; -1: this process does not see it.
  int device_of(int rank) const;
  // Whether the 128 bytes that threads of a warp store at once also arrive at once, on every rank's memory. That is so
  // over NVLink and within one GPU.
  bool supports_ll128() const;
  // The most ranks that share one device.
  int ranks_per_device() const;
  // The fewest SMs of any rank's device.
  int sm_count() const;
  // The compute capability of all ranks' devices, such as 90 for 9.0; 0 if they differ.
  int architecture() const;

 private:
  struct Impl;
  explicit PeerMemory(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace plait
