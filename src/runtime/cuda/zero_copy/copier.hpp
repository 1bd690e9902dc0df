// Enqueues what goes straight from buffer to buffer, and the barriers around it: copies, by one kernel or by copy
// engines between two kernels, and a reduce, by a kernel before them.
//
// What comes from other ranks copy engines copy one after the other, from the next rank on: while all are at the same
// step, each GPU gives to one and takes from one. All at once was much slower (203 instead of 369 GB/s over 4 H200):
// several GPUs meet at one, and copies of one GPU share an engine in no order.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <span>

#include "runtime/cuda/driver/cleared_memory.hpp"
#include "runtime/cuda/driver/stream_fork.hpp"
#include "runtime/cuda/zero_copy/copy_program.hpp"

namespace plait {

class Copier {
 public:
  // The rank's device is current, here and when it ends; by then it is done with all copies. `failures`: of barriers,
  // by barrier_index(), as the GPU addresses them. `processors`: SMs that this rank may keep busy.
  Copier(const DeviceRank& self, ChannelFailure* failures, int sm_count);
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  // Bytes of memory of the GPU, besides the block.
  static size_t device_bytes() { return sizeof(BarrierState); }

  // In the order of `stream`, which may be captured. agreements[l]: its number, of queue l. sources[r]: what is copied
  // from of rank r, as this rank's GPU addresses it. The rank's device is current. Throws kSystem where CUDA refuses.
  void enqueue(const CopyQueues& copies, std::span<const uint64_t> agreements,
               std::span<const std::byte* const> sources, std::byte* output, cudaStream_t stream);
  // The same of the reduce of a call, out of its inputs.
  void enqueue_reduce(const DeviceReduce& reduce, const Call& call, uint64_t agreement,
                      std::span<const std::byte* const> inputs, std::byte* output, cudaStream_t stream) const;

 private:
  void launch_in_one(const CopyQueues& copies, std::span<const uint64_t> agreements,
                     std::span<const std::byte* const> sources, std::byte* output, cudaStream_t stream) const;
  void launch_barrier(const CopyQueues& copies, BarrierQueue CopyQueue::* barrier, std::span<const uint64_t> agreements,
                      cudaStream_t stream) const;
  void fill(BarrierEndpoint& end) const;

  const DeviceRank self_;
  ChannelFailure* const failures_;
  const int sm_count_;
  const ClearedMemory<BarrierState> state_;
  SideStream side_stream_;  // for copies that wait for nobody
};

}  // namespace plait
