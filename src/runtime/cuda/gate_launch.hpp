// From what lanes signal and wait for to what launches of gates take.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/cuda/copy_program.hpp"
#include "runtime/cuda/gate_kernel.hpp"

namespace plait {

// Adds the gates of a lane, if it has any.
void add_gates(const CopyLane& lane, uint64_t agreement, GatedLaunch& launch);

// Gates by themselves, for copies that copy engines perform between them: `gate` is the part of each lane that is
// meant, agreements[l] that of lane l. Fills the lanes of `launch`, and gives how many have such a part.
unsigned prepare_gates(const CopyLanes& copies, GateLane CopyLane::* gate, std::span<const uint64_t> agreements,
                       GateLaunch& launch);

}  // namespace plait
