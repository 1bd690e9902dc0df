// The GPU runtime's launch of a choice, as the simulator needs it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "api/launch_program.hpp"
#include "api/machine_plan.hpp"

namespace plait {

struct ChosenLaunch {
  std::shared_ptr<const VerifiedPlan> plan, ending, zero_copy;  // as of SimulatedLaunch; null: none
  LaunchShape shape;

  SimulatedLaunch of(size_t bytes, int calls = 1, bool pdl = true) const {
    return {plan.get(), ending.get(), zero_copy.get(), shape, bytes, pdl, calls};
  }
  FlagPlace flags() const;
  std::string text() const;  // in words
};

// How many calls of that size to simulate for the time of one in a row: the last half of them is timed. Those of short
// messages take longer to settle.
int calls_in_a_row(size_t bytes);

// Why plans over these ranks are not simulated as launches. Empty: GPUs perform them so, NVIDIA's of one node, as many
// as a launch has room for, and the profile says what that costs.
std::string why_no_launches(const RankMachine& machine);

// Tells tuners how long launches take, by simulating one call.
extern const LaunchTimer kSimulatedLaunches;

// The launch of a choice for a message of `request.bytes`. If the plan was asked for by its name, it is the launch
// that a communicator would give it; of a zero-copy one, the plan that goes through host memory besides is that of the
// tuner's own choice.
// `shape`: a launch as PLAIT_LAUNCH has it, in place of the tuner's; empty: none. `with_ending`: the last slices as the
// profile says. Throws what making the plans does.
ChosenLaunch launch_for(const MachineChoice& chosen, const MachinePlanRequest& request, std::string_view shape = {},
                        bool with_ending = true);

}  // namespace plait
