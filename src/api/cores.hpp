// The cores that ranks may run on, and whether they are too few.
#pragma once

#include <sched.h>

#include <vector>

namespace plait {

// The cores that this process may run on.
cpu_set_t own_cores();

// Whether some ranks have to share a core: those that may run only where a rank may are more than its cores. `cores`:
// of every rank.
bool is_crowded(const std::vector<cpu_set_t>& cores);

}  // namespace plait
