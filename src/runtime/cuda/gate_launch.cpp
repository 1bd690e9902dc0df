// From what lanes signal and wait for to what launches of gates take.
#include "runtime/cuda/gate_launch.hpp"

namespace plait {

void add_gates(const CopyLane& lane, uint64_t agreement, GatedLaunch& launch) {
  if (lane.before.count == 0 && lane.after.count == 0) return;
  GateLane &before = launch.before[launch.lanes], &after = launch.after[launch.lanes];
  ++launch.lanes;
  before = lane.before;
  after = lane.after;
  if (before.count == 0) {  // it is passed all the same, as a part of that lane
    before = after;
    before.count = 0;
  }
  before.agreement = after.agreement = tag_of(agreement);
}

unsigned prepare_gates(const CopyLanes& copies, GateLane CopyLane::* gate, std::span<const uint64_t> agreements,
                       GateLaunch& launch) {
  unsigned lanes = 0;
  for (size_t l = 0; l < copies.lanes.size(); ++l) {
    const GateLane& part = copies.lanes[l].*gate;
    if (part.count == 0) continue;
    launch.lanes[lanes] = part;
    launch.lanes[lanes++].agreement = tag_of(agreements[l]);
  }
  return lanes;
}

}  // namespace plait
