// Turns the signals and waits of queues into arguments of barrier kernels.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/cuda/zero_copy/barrier_kernel.hpp"
#include "runtime/cuda/zero_copy/copy_program.hpp"

namespace plait {

// Adds the barriers of a queue, if it has any, to `launch`.
void add_barriers(const CopyQueue& queue, uint64_t agreement, BetweenBarriersLaunch& launch);

// Prepares a barrier before or after copies by copy engines. `barrier` says which: it is a member of each queue.
// agreements[l] belongs to queue l. Fills the queues of `launch`, and returns how many there are.
unsigned prepare_barriers(const CopyQueues& copies, BarrierQueue CopyQueue::* barrier,
                          std::span<const uint64_t> agreements, BarrierLaunch& launch);

}  // namespace plait
