// Cores on which ranks may run, and whether they are too few.
#pragma once

#include <sched.h>

#include <vector>

namespace plait {

// The cores that this process may run on.
cpu_set_t own_cores();

// How many lanes of a rank the cores allow (Settings::staging_lanes): kMostLanesByCores where each has two cores, since
// its thread has one beside it that moves messages between calls; else two, for one to compute while one sends. `cores`
// has an entry for each rank of a machine.
inline constexpr int kMostLanesByCores = 4;
int lanes_for(const std::vector<cpu_set_t>& cores);

// Whether some ranks have to share a core: more ranks are confined to the cores of one rank than it has. `cores` has an
// entry for each rank.
bool is_crowded(const std::vector<cpu_set_t>& cores);

}  // namespace plait
