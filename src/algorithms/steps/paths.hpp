// The paths that all messages of an algorithm can be divided among, and their shares (TEM-03, TEM-09).
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "algorithms/algorithm.hpp"

namespace plait {

using Hop = std::pair<int, int>;  // from a rank to another

// A path of one kind for each of several hops at once.
struct HopPaths {
  PathKind kind = PathKind::kDirect;
  std::map<Hop, int> via = {};  // of a relay: the rank that each hop goes by
  double gbps = 0;              // that each hop has while all are in use; 0: not known
  bool apart = true;            // no hop takes a link from the direct path of another
};

// The paths of that kind. `missing` is set to a hop that has none, if there is one; then nothing is returned. Where the
// machine's paths are not known, every hop has every path, with another rank as the relay. in_ring: all ranks send to
// the next one at once, or most of them.
std::optional<HopPaths> paths_of(const AlgorithmArguments& arguments, const std::vector<Hop>& hops, PathKind kind,
                                 bool in_ring, Hop& missing);

// The shares that the arguments name, in the smallest numbers, since each is that many chunks. Refuses those that are
// not as they should be.
std::vector<PathShare> checked_shares(const Algorithm& algorithm, const AlgorithmArguments& arguments);

// Whether paths besides the direct one get so much that they are worth their queues, chunks and signals: an eighth of
// what the direct one gets.
bool is_worth_it(const std::vector<PathShare>& percent);

// Shares in percent with which paths end together, as far as whole units of 5% allow. Each unit goes to the path that
// ends first with it, so that the last path ends as early as it can. Where a path would have none, units are of 1%, and
// it may still have none. weights: the bandwidth of each, or any measure of it.
std::vector<int> shares_of(const std::vector<double>& weights);

}  // namespace plait
