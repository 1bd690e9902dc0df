// What a communicator runs, told without making one: for `plait plan`.
#pragma once

#include <cstddef>
#include <string>

#include "base/settings.hpp"
#include "model/placement.hpp"
#include "plan/plan.hpp"
#include "topology/topology.hpp"

namespace plait {

// "flat(store, parts=2), signals, 192 CTAs of 256 threads on at most 132 SMs" for a call over ranks placed so, whose
// message has so many bytes, of float32 and a process for each rank; on machines without GPUs the algorithm alone. Of
// `settings` algorithm, launch, max_sms and reach count; throws kInvalidArgument where they cannot be used. Says so
// where the ranks are on several nodes, which communicators do not serve yet.
std::string live_choice(const Topology& topology, const Placement& placement, Collective collective, int root,
                        size_t message_bytes, const Settings& settings);

}  // namespace plait
