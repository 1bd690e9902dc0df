// Memory of every rank's GPU that the GPUs of all ranks can load from and store to. The library's own only; users'
// buffers are peer_buffers.hpp's. See docs/reach.md.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/settings.hpp"
#include "runtime/bootstrap.hpp"
#include "topology/gpu_models.hpp"

namespace plait {

// Who a device of this process is, for whoever looks for it in a topology. Throws what CUDA says.
GpuIdentity identity_of(int device);

class PeerMemory {
 public:
  // Collective over the ranks of `bootstrap`: every rank makes `bytes` of zeroed memory on its `device` and maps that
  // of all others. kAuto takes the first kind that works for all ranks: kVmm, kIpc, kHost. Throws on all ranks alike:
  // kResources with the rank, device and reason of each kind where none works, kMismatch where ranks want different
  // things, kInvalidArgument for 0 bytes, and what CUDA says where a rank cannot use its device. Ranks may share
  // devices and processes, and see different devices (CUDA_VISIBLE_DEVICES).
  static PeerMemory create(Bootstrap& bootstrap, int device, size_t bytes, PeerMemoryKind wanted);
  // The same for ranks that are all in this process, rank r on devices[r].
  static std::vector<PeerMemory> in_process(std::span<const int> devices, size_t bytes, PeerMemoryKind wanted);

  PeerMemory(PeerMemory&&) noexcept;
  PeerMemory& operator=(PeerMemory&&) noexcept;
  // Not collective: ranks end theirs in any order. No kernel of this rank may use any rank's memory by then.
  ~PeerMemory();

  // The memory of `rank`, as this rank's device addresses it.
  std::byte* of(int rank) const;
  size_t bytes() const;  // as asked for, of each rank
  PeerMemoryKind kind() const;
  int device() const;
  // That of `rank`, as this process numbers devices; -1 where it does not see it.
  int device_of(int rank) const;
  // Whether what a warp stores at once arrives at once, wherever it is stored to: true over NVLink and within one GPU.
  bool supports_ll128() const;
  // The most ranks that share one device.
  int ranks_per_device() const;
  // The fewest SMs of any rank's device.
  int sm_count() const;
  // The compute capability of all ranks' devices, such as 90 for 9.0; 0 where they differ.
  int architecture() const;

 private:
  struct Impl;
  explicit PeerMemory(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace plait
