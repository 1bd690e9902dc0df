// Launches of kernels that perform a plan in slices, as steps of the simulator.
#pragma once

#include "api/launch_steps.hpp"
#include "api/lowered_launch.hpp"
#include "plan/plan.hpp"

namespace plait {

// Adds all queues of all ranks; `first_queues`: the number of each rank's first.
void add_kernels(const LoweredLaunch& launch, const Plan& plan, const std::vector<int>& first_queues,
                 LaunchSteps& steps);

}  // namespace plait
