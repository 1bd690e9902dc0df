// A GPU that the CPU drives through work queues in pinned host memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/settings.hpp"
#include "runtime/cuda/cpu_driven/work_queues.hpp"
#include "runtime/cuda/memory/peer_memory.hpp"
#include "runtime/reduce_device.hpp"

namespace plait {

class CudaReduces final : public ReduceDevice {
 public:
  struct Options {
    CpuDriven queues = CpuDriven::kOneQueue;
    int ctas = 0;  // of the kernel, from 1
    std::chrono::microseconds idle{};
    size_t scratch_bytes = 0;  // of a rank, in one room
  };
  static size_t peer_bytes(const Options& options) { return 2 * options.scratch_bytes; }

  // `memory` is that of this host's ranks, with peer_bytes(); rank `ranks[i]` has number i there. Loads the kernel.
  // Throws kResources where the GPU has no room for so many CTAs at once.
  CudaReduces(PeerMemory memory, std::vector<int> ranks, Options options);
  // Waits until the kernel has left. The memory is freed later, when no call of the process is under way.
  ~CudaReduces() override;

  std::byte* scratch(int rank, uint32_t room) const override;
  void map_host(std::shared_ptr<std::byte> memory, size_t bytes) override;
  std::byte* of_host(const std::byte* address) const override;
  bool has_room() override;
  uint64_t post(const WorkRequest& request) override;
  bool is_done(uint64_t number) override;
  const void* multiply(const Scalar& scalar, const void* input, void* output, size_t elements) override;
  const void* copy(const void* input, size_t bytes) override;
  void use(const std::function<void()>& work) const override;
  void finish() override;
  void give_up() noexcept override;
  int ordinal() const override;
  size_t device_bytes() const override;
  uint64_t requests() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plait
