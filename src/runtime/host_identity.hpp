// Tells which host a process is on. Processes of one host can share memory.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace plait {

// Plain bytes of a fixed size.
struct HostIdentity {
  // Equal for processes that can share memory, and different for all others. Ranks share memory through a descriptor,
  // which passes between them over a socket that has a name. So they need one kernel that has not restarted since (its
  // boot id), and one network namespace, which the names of sockets belong to.
  std::array<uint8_t, 16> digest{};
  char name[64] = {};  // for messages

  bool is_of_one_host_with(const HostIdentity& other) const { return digest == other.digest; }
};

// A number of the kernel that this process runs on: equal in all containers of a host until it restarts. 0 where the
// kernel does not say.
uint64_t own_kernel();

// One word that tells hosts apart.
std::string to_text(const HostIdentity& identity);

// This process's. Processes of one machine with different `host_id` (PLAIT_HOST_ID) are on different hosts, so that one
// machine can stand in for several. Processes of different machines never are on one, whatever theirs is.
HostIdentity own_host(const std::string& host_id);

}  // namespace plait
