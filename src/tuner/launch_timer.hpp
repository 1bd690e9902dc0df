// Who tells a tuner what launches on GPUs take: the simulator of launches, which knows more of the runtime than a tuner
// may see.
#pragma once

#include <cstddef>
#include <optional>

#include "plan/verifier.hpp"
#include "tuner/launch_shape.hpp"
#include "tuner/machine.hpp"

namespace plait {

struct LaunchToTime {
  const VerifiedPlan* plan = nullptr;
  const VerifiedPlan* ending = nullptr;     // for the last slices; null: none
  const VerifiedPlan* zero_copy = nullptr;  // which goes in place of `plan`; null: none
  LaunchShape shape;
  size_t bytes = 0;  // of the message, of float32
};

// Pure functions, so that all ranks hear the same.
struct LaunchTimer {
  // Whether the machine's launches are known.
  bool (*knows)(const RankMachine& machine);
  // The seconds of one call; none where they are more than `most`, or a launch has no room for the plan.
  std::optional<double> (*seconds)(const RankMachine& machine, const LaunchToTime& launch, double most);
};

}  // namespace plait
