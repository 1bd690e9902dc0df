// The processes of the other ranks, for a rank of a new communicator to watch.
#pragma once

#include <vector>

#include "api/handshake.hpp"
#include "runtime/bootstrap.hpp"
#include "runtime/host/peers.hpp"
#include "runtime/hosts.hpp"

namespace plait {

// The ranks of each host call it together: `on_host` is theirs, with as many ranks as `hosts` says. `all` are the
// handshakes of the ranks of all hosts.
Peers meet_peers(Bootstrap& on_host, const Hosts& hosts, int rank, const std::vector<Handshake>& all);

}  // namespace plait
