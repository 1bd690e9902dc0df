// A simulated run in words.
#pragma once

#include <string>
#include <vector>

#include "model/simulator/critical_path.hpp"
#include "model/simulator/simulation.hpp"
#include "topology/topology.hpp"

namespace plait {

// "n0.gpu0 -> n0.gpu1", "n0.nic0 sends", "memory of rank 3".
std::string to_text(const SimulatedResource& resource, const Topology& topology);

// "nvlink", "network", …, "nic", "memory".
const char* kind_of(const SimulatedResource& resource, const Topology& topology);

// The least time that links and memories allow, if all are busy all the time: seconds without the launch, and the
// narrowest resource. 0 and kNothing where nothing moves.
struct RunBound {
  double seconds = 0;
  uint32_t resource = SimulatedRun::Last::kNothing;
};
RunBound bound_of(const SimulatedMachine& machine, const SimulatedRun& run);

// How a queue spends its time.
struct QueueTime {
  int rank = 0, queue = 0;
  double end = 0;      // of its last operation, in seconds from the first of any
  double moving = 0;   // bytes are under way
  double waiting = 0;  // for signals and messages
};
std::vector<QueueTime> queue_times(const SimulatorProgram& program, const SimulatedRun& run);

// Time and bound, the seconds of the critical path by cause, and the resources on which they are spent: a few lines.
std::string describe_run(const SimulatorProgram& program, const SimulatedMachine& machine, const SimulatedRun& run,
                         const CriticalPath& path, const Topology& topology);

// A table of what carries anything: bytes, bandwidth, how long it was busy and how much of the run it would take at
// full speed. The busiest come first.
std::string describe_uses(const SimulatorProgram& program, const SimulatedMachine& machine, const SimulatedRun& run,
                          const Topology& topology);

}  // namespace plait
