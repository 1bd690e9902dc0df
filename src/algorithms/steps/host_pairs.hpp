// The ranks of a hierarchy that reach each other by way of host memory, and how much of a message should go there.
#pragma once

#include <functional>
#include <vector>

#include "algorithms/algorithm.hpp"

namespace plait {

// Whether data goes from one rank to another by way of host memory. It does if they have such a path and are on one
// socket, so that nobody is in the way of data between sockets (TEM-19). Where paths are not known, it does if they are
// of one group. Refuses arguments where no two ranks have it. The arguments must outlive it.
std::function<bool(int from, int to)> host_pairs(const Algorithm& algorithm, const AlgorithmArguments& arguments);

// The shares with which direct paths and those through the host end together, between the first rank of a group and
// any other. Empty where some have no such path of one socket, or nothing is known of paths.
std::vector<PathShare> shares_in_groups(const AlgorithmArguments& machine, int parts);

}  // namespace plait
