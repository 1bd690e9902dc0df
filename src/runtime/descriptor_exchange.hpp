// Descriptors from every rank to every other, for memory that each rank makes and all of them map.
#pragma once

#include <vector>

#include "runtime/bootstrap.hpp"

namespace plait {

// Collective over the ranks of `bootstrap`. Every rank gives a descriptor, which stays its own, and gets one of each
// rank's, by rank; that of its own is empty. Throws kTimeout where a rank's does not come within `seconds`, kSystem
// where the system refuses sockets. What another user of this host sends is ignored.
std::vector<UniqueFd> exchange_descriptors(Bootstrap& bootstrap, int descriptor, double seconds);

}  // namespace plait
