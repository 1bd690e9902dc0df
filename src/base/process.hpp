// Names that tell processes and their hosts apart.
#pragma once

#include <cstdint>
#include <string>

namespace plait {

// Names the set of processes that this one can see, in which process ids are unique: containers may each have their
// own. 0 where the kernel does not say.
uint64_t own_process_namespace();

// Names the set of network interfaces, ports and names of abstract sockets that this process uses, likewise.
uint64_t own_network_namespace();

// Names the kernel that this process runs on since it was started: equal in all containers of a host, different on
// every other host and virtual machine. Empty where the kernel does not say.
std::string own_boot_id();

// The host's name, for messages.
std::string own_host_name();

}  // namespace plait
