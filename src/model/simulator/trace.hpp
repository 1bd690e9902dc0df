// A simulated run as a timeline: Chrome's trace events in JSON, which Perfetto and chrome://tracing open.
#pragma once

#include <string>

#include "model/simulator/critical_path.hpp"
#include "plan/plan.hpp"

namespace plait {

// More steps make files that browsers do not open.
inline constexpr size_t kMostTracedSteps = 1'000'000;

// Rows are the critical path by cause, a process for each rank with a thread for each queue, and the links with the
// times in which anything crossed them. An arrow leads from a signal, or a message that was sent, to each operation
// that waited for it. Times are in microseconds from the first operation on. `plan` is what was compiled. Throws
// kInvalidArgument where there are more than kMostTracedSteps steps.
std::string trace_of(const Plan& plan, const SimulatorProgram& program, const SimulatedMachine& machine,
                     const SimulatedRun& run, const CriticalPath& path, const Topology& topology,
                     const Placement& placement);

}  // namespace plait
