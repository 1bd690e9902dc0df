#include "runtime/cuda/zero_copy/copier.hpp"

#include <optional>

#include "base/error.hpp"
#include "runtime/cuda/driver/driver.hpp"
#include "runtime/cuda/zero_copy/barrier_copy_kernel.hpp"
#include "runtime/cuda/zero_copy/barrier_launch.hpp"
#include "runtime/cuda/zero_copy/barrier_reduce_kernel.hpp"
#include "runtime/cuda/zero_copy/copy_kernel.hpp"

namespace plait {
namespace {

// Copies within a rank, on a fork.
void put(StreamFork& fork, const PlacedCopy& copy, bool by_kernel) {
  if (by_kernel) {
    PlacedCopy argument = copy;
    fork.launch(copy_kernel(), dim3(kCopyCtas), dim3(kCopyThreads), &argument, "copying");
  } else {
    fork.copy(copy.to, copy.from, copy.bytes);
  }
}

}  // namespace

Copier::Copier(const DeviceRank& self, ChannelFailure* failures, int sm_count)
    : self_(self), failures_(failures), sm_count_(sm_count) {
  load_kernel(barrier_kernel());
  load_kernel(copy_kernel());
  load_kernel(barrier_copy_kernel());
  for (int type = 0; type < kDataTypeCount; ++type) {
    for (const bool aligned : {false, true}) load_kernel(barrier_reduce_kernel(static_cast<DataType>(type), aligned));
  }
}

void Copier::enqueue(const CopyQueues& copies, std::span<const uint64_t> agreements,
                     std::span<const std::byte* const> sources, std::byte* output, cudaStream_t stream) {
  if (copies.by_one_kernel) {
    launch_in_one(copies, agreements, sources, output, stream);
    return;
  }
  std::optional<StreamFork> fork;  // for copies that wait for no other rank
  for (const CopyQueue& queue : copies.queues) {
    if (queue.before.count > 0) continue;
    for (const PlacedCopy& copy : place(queue, sources, output)) {
      if (!fork) fork.emplace(side_stream_, stream);
      put(*fork, copy, queue.by_kernel);
    }
  }
  launch_barrier(copies, &CopyQueue::before, agreements, stream);
  for (const CopyQueue& queue : copies.queues) {
    if (queue.before.count == 0) continue;
    for (const PlacedCopy& copy : place(queue, sources, output)) {
      check_cuda(cudaMemcpyAsync(copy.to, copy.from, copy.bytes, cudaMemcpyDeviceToDevice, stream), "copying");
    }
  }
  if (fork) fork->join();
  launch_barrier(copies, &CopyQueue::after, agreements, stream);
}

void Copier::enqueue_reduce(const DeviceReduce& reduce, const Call& call, uint64_t agreement,
                            std::span<const std::byte* const> inputs, std::byte* output, cudaStream_t stream) const {
  BarrierReduceLaunch launch = {};
  fill(launch);
  const unsigned ctas = prepare_reduce(reduce, call, agreement, inputs, output, sm_count_, launch);
  void* arguments[] = {&launch};
  check_cuda(cudaLaunchKernel(barrier_reduce_kernel(call.type, is_all_aligned(launch)), dim3(ctas),
                              dim3(kBarrierReduceThreads), arguments, 0, stream),
             "launching a reduce");
}

void Copier::launch_in_one(const CopyQueues& copies, std::span<const uint64_t> agreements,
                           std::span<const std::byte* const> sources, std::byte* output, cudaStream_t stream) const {
  BarrierCopyLaunch launch = {};
  fill(launch);
  const BarrierCopyGrid grid = prepare_copies(copies, agreements, sources, output, sm_count_, launch);
  if (grid.ctas == 0) return;
  void* arguments[] = {&launch};
  check_cuda(cudaLaunchKernel(barrier_copy_kernel(), dim3(grid.ctas, grid.rows), dim3(kBarrierCopyThreads), arguments,
                              0, stream),
             "launching copies");
}

void Copier::launch_barrier(const CopyQueues& copies, BarrierQueue CopyQueue::* barrier,
                            std::span<const uint64_t> agreements, cudaStream_t stream) const {
  BarrierLaunch launch = {};
  const unsigned queues = prepare_barriers(copies, barrier, agreements, launch);
  if (queues == 0) return;
  fill(launch);
  void* arguments[] = {&launch};
  check_cuda(cudaLaunchKernel(barrier_kernel(), dim3(1), dim3(queues * kWarpThreads), arguments, 0, stream),
             "launching a barrier");
}

void Copier::fill(BarrierEndpoint& end) const {
  end.self = self_;
  end.state = state_.get();
  end.failures = failures_;
}

}  // namespace plait
