// What links allow, found by trying all partitions and all cuts of the ranks: other ways than the searches that these
// bounds are for.
#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <vector>

#include "algorithms/algorithm.hpp"

namespace plait::test {

// Nash-Williams and Tutte: what crosses between the k parts of a partition carries k - 1 links of each tree.
inline double bound_by_partitions(int ranks, const std::vector<DeviceLink>& links) {
  double least = 1e9;
  std::vector<int> part(ranks);
  const std::function<void(int, int)> divide = [&](int rank, int parts) {
    if (rank < ranks) {
      for (part[rank] = 0; part[rank] < parts; ++part[rank]) divide(rank + 1, parts);
      part[rank] = parts;
      return divide(rank + 1, parts + 1);
    }
    if (parts == 1) return;
    double crossing = 0;
    for (const DeviceLink& it : links) crossing += part[it.a] != part[it.b] ? it.gbps : 0;
    least = std::min(least, crossing / (parts - 1));
  };
  divide(0, 0);
  return least;
}

// The least, over all parts of the ranks, of the bandwidth of all links into it by the data that must come in.
inline double bound_by_cuts(int ranks, const std::vector<DeviceLink>& links,
                            const std::function<double(unsigned part)>& data_into) {
  double least = 1e9;
  for (unsigned part = 1; part + 1 < 1u << ranks; ++part) {
    const double data = data_into(part);
    if (data == 0) continue;
    double cut = 0;
    for (const DeviceLink& it : links) cut += (part >> it.a & 1) != (part >> it.b & 1) ? it.gbps : 0;
    least = std::min(least, cut / data);
  }
  return least;
}

// The most GB of its message a second that any algorithm, or for an all_reduce any that goes up and down trees, can
// move over the links.
inline double link_bound(Collective collective, int root, int ranks, const std::vector<DeviceLink>& links) {
  const auto outside = [&](unsigned part) { return (ranks - std::popcount(part)) / static_cast<double>(ranks); };
  const auto has_root = [&](unsigned part) { return (part >> root & 1) != 0; };
  switch (collective) {
    case Collective::kAllReduce:
      return bound_by_partitions(ranks, links);
    case Collective::kBroadcast:
    case Collective::kReduce:  // the same, backwards
      return bound_by_cuts(ranks, links, [&](unsigned part) { return has_root(part) ? 0 : 1; });
    case Collective::kGather:
    case Collective::kScatter:
      return bound_by_cuts(ranks, links, [&](unsigned part) { return has_root(part) ? outside(part) : 0; });
    default:  // all_gather and reduce_scatter: a message of p blocks
      return bound_by_cuts(ranks, links, outside);
  }
}

}  // namespace plait::test
