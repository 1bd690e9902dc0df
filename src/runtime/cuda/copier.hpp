// Enqueues what goes straight from buffer to buffer, and the gates around it: copies, by one kernel or by copy engines
// between two kernels, and a fold, by a kernel before them.
//
// What comes from other ranks copy engines copy one after the other, from the next rank on: while all are at the same
// step, each GPU gives to one and takes from one. All at once was much slower (203 instead of 369 GB/s over 4 H200):
// several GPUs meet at one, and copies of one GPU share an engine in no order.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <span>

#include "runtime/cuda/branch.hpp"
#include "runtime/cuda/cleared_memory.hpp"
#include "runtime/cuda/copy_program.hpp"

namespace plait {

class Copier {
 public:
  // The rank's device is current, here and when it ends; by then it is done with all copies. `failures`: of gates, by
  // gate_index(), as the GPU addresses them. `processors`: SMs that this rank may keep busy.
  Copier(const DeviceRank& self, StrandFailure* failures, int processors);
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  // Bytes of memory of the GPU, besides the block.
  static size_t device_bytes() { return sizeof(GateState); }

  // In the order of `stream`, which may be captured. agreements[l]: its number, of lane l. sources[r]: what is copied
  // from of rank r, as this rank's GPU addresses it. The rank's device is current. Throws kSystem where CUDA refuses.
  void enqueue(const CopyLanes& copies, std::span<const uint64_t> agreements, std::span<const std::byte* const> sources,
               std::byte* output, cudaStream_t stream);
  // The same of the fold of a call, out of its inputs.
  void enqueue_fold(const DeviceFold& fold, const Call& call, uint64_t agreement,
                    std::span<const std::byte* const> inputs, std::byte* output, cudaStream_t stream) const;

 private:
  void launch_in_one(const CopyLanes& copies, std::span<const uint64_t> agreements,
                     std::span<const std::byte* const> sources, std::byte* output, cudaStream_t stream) const;
  void launch_gate(const CopyLanes& copies, GateLane CopyLane::* gate, std::span<const uint64_t> agreements,
                   cudaStream_t stream) const;
  void fill(GateEnd& end) const;

  const DeviceRank self_;
  StrandFailure* const failures_;
  const int processors_;
  const ClearedMemory<GateState> state_;
  SideStream beside_;  // for copies that wait for nobody
};

}  // namespace plait
