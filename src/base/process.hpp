// What tells processes apart.
#pragma once

#include <cstdint>

namespace plait {

// Names the set of processes that this one can see, in which process ids are unique: containers may each have their
// own. 0 where the kernel does not say.
uint64_t own_process_namespace();

// Names the set of network interfaces, ports and names of abstract sockets that this process uses, likewise.
uint64_t own_network_namespace();

}  // namespace plait
