// Rings and spanning trees on every subset of a DGX-1's GPUs, beside bounds that are found in another way: over all
// partitions and all cuts of the ranks (BLK-07, BLK-08, BLK-13, BLK-23).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "model/link_load.hpp"
#include "topology/machines.hpp"

namespace plait {
namespace {

// Some GPUs of a machine.
struct Subset {
  const Topology& topology;
  Placement placement;
  AlgorithmArguments arguments;

  Subset(const Topology& machine, const std::vector<int>& gpus)
      : topology(machine),
        placement(place_ranks(machine, gpus)),
        arguments(arguments_for(machine, placement, Collective::kAllReduce)) {}

  int ranks() const { return arguments.ranks; }
  // Subsets that NVLink does not join are joined by PCIe, which all pairs of ranks share.
  bool nvlink_joins_all() const {
    std::vector<bool> joined(ranks());
    joined[0] = true;
    for (int round = 1; round < ranks(); ++round) {
      for (const Link& it : topology.links) {
        const int a = rank_of(it.a), b = rank_of(it.b);
        if (joins_gpus(it.kind) && a >= 0 && b >= 0 && (joined[a] || joined[b])) joined[a] = joined[b] = true;
      }
    }
    return std::find(joined.begin(), joined.end(), false) == joined.end();
  }
  int rank_of(int device) const {
    const auto& devices = placement.device_of_rank;
    const auto found = std::find(devices.begin(), devices.end(), device);
    return found == devices.end() ? -1 : static_cast<int>(found - devices.begin());
  }
  LinkLoad load(const char* algorithm, Collective collective, int root = 0) const {
    AlgorithmArguments it = arguments;
    it.collective = collective;
    it.root = root;
    return link_load(verify(make_plan(algorithm, it)), topology, placement);
  }
  // Between the ranks whose bits are set and all others, each way.
  double cut(unsigned part) const {
    double sum = 0;
    for (const RankLink& it : arguments.links) {
      if ((part >> it.a & 1) != (part >> it.b & 1)) sum += it.gbps;
    }
    return sum;
  }
};

void for_all_subsets(const char* name, const std::function<void(const Subset&, const std::string& where)>& check) {
  const Topology topology = machine(name);
  const std::vector<int> gpus = devices_of(topology, DeviceKind::kGpu);
  for (unsigned chosen = 1; chosen < 1u << gpus.size(); ++chosen) {
    if (std::popcount(chosen) < 2) continue;
    std::vector<int> devices;
    std::string where = name;
    for (size_t i = 0; i < gpus.size(); ++i) {
      if ((chosen >> i & 1) == 0) continue;
      devices.push_back(gpus[i]);
      where += " " + std::to_string(i);
    }
    check(Subset(topology, devices), where);
  }
}

// ---- Bounds ----

// Nash-Williams and Tutte: what crosses between the k parts of a partition carries k - 1 links of each tree.
double bound_by_partitions(const Subset& subset) {
  double least = 1e9;
  std::vector<int> part(subset.ranks());
  const std::function<void(int, int)> divide = [&](int rank, int parts) {
    if (rank < subset.ranks()) {
      for (part[rank] = 0; part[rank] < parts; ++part[rank]) divide(rank + 1, parts);
      part[rank] = parts;
      return divide(rank + 1, parts + 1);
    }
    if (parts == 1) return;
    double crossing = 0;
    for (const RankLink& it : subset.arguments.links) crossing += part[it.a] != part[it.b] ? it.gbps : 0;
    least = std::min(least, crossing / (parts - 1));
  };
  divide(0, 0);
  return least;
}

// The least, over all parts of the ranks, of the bandwidth of all links into it by the data that must come in.
double bound_by_cuts(const Subset& subset, const std::function<double(unsigned part)>& data_into) {
  double least = 1e9;
  for (unsigned part = 1; part + 1 < 1u << subset.ranks(); ++part) {
    const double data = data_into(part);
    if (data > 0) least = std::min(least, subset.cut(part) / data);
  }
  return least;
}

// In bytes of the message a second.
double bound(const Subset& subset, Collective collective, int root) {
  const int p = subset.ranks();
  const auto has = [](unsigned part, int rank) { return (part >> rank & 1) != 0; };
  switch (collective) {
    case Collective::kAllReduce:
      return bound_by_partitions(subset);
    case Collective::kBroadcast:
    case Collective::kReduce:  // the same, backwards
      return bound_by_cuts(subset, [&](unsigned part) { return has(part, root) ? 0 : 1; });
    default:  // all_gather and reduce_scatter: the message of p blocks
      return bound_by_cuts(subset, [&](unsigned part) { return (p - std::popcount(part)) / static_cast<double>(p); });
  }
}

// The busiest link needs as long as the bound says, or a few percent more where shares do not come out even.
void expect_at_bound(const Subset& subset, Collective collective, int root, const std::string& where) {
  SCOPED_TRACE(join(where, " ", name(collective), " root ", root));
  const double seconds = subset.load("spanning_trees", collective, root).busiest_seconds;
  const double fraction = 1e-9 / seconds / bound(subset, collective, root);
  EXPECT_LE(fraction, 1.001);
  EXPECT_GE(fraction, has_rank_blocks(collective) ? 0.9 : 0.99);
}

class EverySubset : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Of, EverySubset, testing::Values("dgx1-p100", "dgx1-v100"),
                         [](const auto& info) { return std::string(info.param) == "dgx1-p100" ? "P100" : "V100"; });

TEST_P(EverySubset, SpanningTreesReachTheirBound) {
  for_all_subsets(GetParam(), [](const Subset& subset, const std::string& where) {
    if (!subset.nvlink_joins_all()) return;
    for (const Collective collective : {Collective::kAllReduce, Collective::kBroadcast, Collective::kReduce,
                                        Collective::kAllGather, Collective::kReduceScatter}) {
      expect_at_bound(subset, collective, has_root(collective) ? subset.ranks() / 2 : 0, where);
    }
  });
}
}  // namespace
}  // namespace plait
