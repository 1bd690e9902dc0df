// The processes of the other ranks, for a rank of a new communicator to watch.
#pragma once

#include <vector>

#include "api/introduction.hpp"
#include "runtime/bootstrap.hpp"
#include "runtime/host/peers.hpp"

namespace plait {

// All ranks call it together.
Peers meet_peers(Bootstrap& bootstrap, const Introduction& own, const std::vector<Introduction>& all);

}  // namespace plait
