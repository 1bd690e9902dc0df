// The processes of the other ranks, for a rank of a new communicator to watch.
#pragma once

#include <vector>

#include "api/handshake.hpp"
#include "runtime/bootstrap.hpp"
#include "runtime/host/peers.hpp"

namespace plait {

// All ranks call it together.
Peers meet_peers(Bootstrap& bootstrap, const Handshake& own, const std::vector<Handshake>& all);

}  // namespace plait
