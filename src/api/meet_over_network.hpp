// How ranks of several hosts come to exchange the data of their calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/handshake.hpp"
#include "base/settings.hpp"
#include "plan/plan.hpp"
#include "runtime/bootstrap.hpp"
#include "runtime/host/control.hpp"
#include "runtime/host/other_nodes.hpp"
#include "runtime/hosts.hpp"

namespace plait {

// Opens a transport on every rank and exchanges their addresses. Collective over the ranks of `bootstrap`. Throws on
// all ranks alike, with the hosts that they are on: kResources where a rank has no UCX, with how to get it. Null, and
// nothing done, on one host.
//
// `is_on_host`: the communicator has no GPU, so it may be a lane that drives one. Its messages may then be between GPUs
// if the settings say so and the transports of all ranks can do that.
std::unique_ptr<OtherNodes> meet_over_network(Bootstrap& bootstrap, const Hosts& hosts, const Settings& settings,
                                              bool is_on_host);

// Keeps the connections of `bootstrap`, after its last use, for failures and departures. Collective. Null on one host.
// `segment` is the memory of this rank's host.
std::unique_ptr<Control> stay_in_touch(Bootstrap bootstrap, const Hosts& hosts, std::shared_ptr<Segment> segment,
                                       const std::vector<Handshake>& all);

// Throws kInvalidArgument if the nodes of a plan are not these hosts, of which there are several: what it takes for
// shared memory would not be shared.
void check_nodes(const Plan& plan, const Hosts& hosts);
// Throws kInvalidArgument if the machine that PLAIT_TOPOLOGY names has the ranks on other nodes than these hosts, of
// which there are several.
void check_described_nodes(const std::string& name, const std::vector<int>& node_of_rank, const Hosts& hosts);

}  // namespace plait
