// The load of each step of a plan: what its transfers put on the links, and how many of them meet on one.
//
// A transfer belongs to step 1 if nothing of another rank has to come before, and else to the step after the last one
// that it waits for. Totals hide what one step does: six GPUs of a node that double recursively all cross its adapter
// in one step, and none does in another.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/simulator/program.hpp"
#include "model/simulator/simulation.hpp"
#include "topology/topology.hpp"

namespace plait {

struct StepLoad {
  struct Use {
    uint32_t resource = 0;  // of the program; links and NICs alone
    double bytes = 0;
    int64_t flows = 0;   // transfers of the step that cross it
    double seconds = 0;  // that its bytes take at full speed
  };
  double from = 0, to = 0;  // seconds after the call began, in which any of its transfers was under way
  std::vector<Use> uses;    // the one that takes longest first
};

// By step, the first first; a step whose transfers cross no link has no uses.
std::vector<StepLoad> step_loads(const SimulatorProgram& program, const SimulatedMachine& machine,
                                 const SimulatedRun& run);

// A table of them: for each step the link that needs the most time, and the most transfers that share one.
std::string describe_steps(const SimulatorProgram& program, const std::vector<StepLoad>& loads,
                           const Topology& topology);

}  // namespace plait
