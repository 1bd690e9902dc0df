// Launches of copies straight between buffers, as steps of the simulator.
#pragma once

#include "api/launch_steps.hpp"
#include "plan/plan.hpp"

namespace plait {

// Adds all queues of all ranks; `bytes`: of the message, as far as links carry it.
void add_copies(const Plan& plan, double bytes, LaunchSteps& steps);

}  // namespace plait
