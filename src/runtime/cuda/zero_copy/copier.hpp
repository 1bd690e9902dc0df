// Enqueues zero-copy work and the barriers around it: copies, by one kernel or by copy engines between two barrier
// kernels, and before them a reduce by a kernel.
//
// Copy engines copy from one rank after the other, starting with the next rank. While all GPUs are at the same step,
// each is read by one GPU and reads from one. Starting all copies at once was much slower, 203 instead of 369 GB/s over
// 4 H200. Several GPUs then read from one, and the copies of a GPU share an engine in no particular order.
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
  // The rank's device is current, here and in the destructor; by then the GPU is done with all copies. `failures`:
  // those of barriers, by barrier_index(), as a device pointer. `sm_count`: how many SMs this rank may keep busy.
  Copier(const DeviceRank& self, ChannelFailure* failures, int sm_count);
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  // Bytes of GPU memory besides the block.
  static size_t device_bytes() { return sizeof(BarrierState); }

  // Enqueues copies on `stream`, which may be captured. agreements[l] is the number of queue l's agreement. sources[r]
  // is the buffer that is copied from rank r, as this rank's GPU addresses it. The rank's device is current. Throws
  // kSystem if CUDA refuses.
  void enqueue(const CopyQueues& copies, std::span<const uint64_t> agreements,
               std::span<const std::byte* const> sources, std::byte* output, cudaStream_t stream);
  // The same for the reduce of a call, which reads the inputs.
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
  SideStream side_stream_;  // for copies that wait for no other rank
};

}  // namespace plait
