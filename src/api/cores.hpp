// Cores on which ranks may run, and whether they are too few.
#pragma once

#include <sched.h>

#include <vector>

namespace plait {

// The cores that this process may run on.
cpu_set_t own_cores();

// Whether some ranks have to share a core: more ranks are confined to the cores of one rank than it has. `cores` has an
// entry for each rank.
bool is_crowded(const std::vector<cpu_set_t>& cores);

}  // namespace plait
