// The load of a plan on the links of a machine, and the bound that follows from it.
//
// Every crossing of the plan is laid over paths of the topology. It takes a direct one if there is one, else the one
// with more bandwidth through a host or another GPU. Between nodes it goes through NICs. Several direct or net paths
// that are equally good (NVSwitches, rails) carry equal parts. Data between ranks on CPU sockets is written to the
// memory of one socket and read from there. It crosses the link to that memory, and the link between the sockets if
// they differ. Caches, which spare small messages this way, are left out; so are memories of GPUs, engines and latency.
// Amounts are in bytes per byte of the message, so one answer serves all sizes.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "model/placement.hpp"
#include "model/routes.hpp"
#include "model/timeline.hpp"
#include "plan/verifier.hpp"
#include "topology/paths.hpp"
#include "topology/topology.hpp"

namespace plait {

// The paths that carry data from one device to another, in equal parts. Throws kInvalidArgument if none exists.
std::vector<Path> carrying_paths(const Topology& topology, const PathFinder& finder, int from, int to);

// The same between ranks on CPU sockets, which may be one: out of the memory of the first and into that of the other,
// if these are devices. Empty for one socket whose memory is no device.
std::vector<Path> memory_paths(const Topology& topology, const PathFinder& finder, int from, int to);

// Throws kInvalidArgument where data from `a` to `b` would go through host memory that one of them does not reach.
// Ranks whose GPUs NVLink joins across nodes are of one node in a plan, but do not reach each other's host memory.
void check_host_reach(const Plan& plan, const Routes& routes, const Endpoint& a, const Endpoint& b);

// All data that goes from one device to another, or between ranks of one CPU socket through its memory.
struct Flow {
  int from = 0, to = 0;     // devices
  double bytes = 0;         // per byte of the message
  std::vector<Path> paths;  // each carries an equal part
};

struct LinkLoad {
  std::vector<Flow> flows;                   // sorted by device
  double local_bytes = 0;                    // per byte of the message: between memories of one device, over no link
  std::vector<std::array<double, 2>> bytes;  // [link][0: a to b, 1: b to a], per byte of the message

  std::optional<DirectedLink> busiest;  // needs the most time; nothing where no link is used
  double busiest_seconds = 0;           // its time for each byte of the message: no run of the plan can be faster
  // The longest chain of operations that wait for each other, each at the full speed of its paths, in seconds for each
  // byte of the message. Where this is more than busiest_seconds, the links idle while the plan waits for itself.
  double chain_seconds = 0;

  // The least time that the plan can take for a message of so many bytes.
  double lower_bound(double message_bytes) const;
};

// Throws kInvalidArgument where no path leads where the plan wants one, or ranks of one node of the plan share host
// memory that is on different hosts. `timeline` is that of the plan.
LinkLoad link_load(const Plan& plan, const PlanCounts& counts, const Timeline& timeline, Routes& routes);
// The same from the plan alone. Also throws kInvalidArgument if ranks and placement do not fit.
LinkLoad link_load(const VerifiedPlan& plan, const Topology& topology, const Placement& placement);

}  // namespace plait
