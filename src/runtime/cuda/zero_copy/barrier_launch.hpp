// From what queues signal and wait for to what launches of barriers take.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/cuda/zero_copy/barrier_kernel.hpp"
#include "runtime/cuda/zero_copy/copy_program.hpp"

namespace plait {

// Adds the barriers of a queue, if it has any.
void add_barriers(const CopyQueue& queue, uint64_t agreement, BetweenBarriersLaunch& launch);

// Barriers by themselves, for copies that copy engines perform between them: `barrier` is the part of each queue that
// is meant, agreements[l] that of queue l. Fills the queues of `launch`, and gives how many have such a part.
unsigned prepare_barriers(const CopyQueues& copies, BarrierQueue CopyQueue::* barrier,
                          std::span<const uint64_t> agreements, BarrierLaunch& launch);

}  // namespace plait
