// Rings and spanning trees on every subset of a DGX-1's GPUs, beside bounds that are found in another way: over all
// partitions and all cuts of the ranks (BLK-07, BLK-08, BLK-13, BLK-23).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "algorithms/steps/hamilton_rings.hpp"
#include "model/link_load.hpp"
#include "support/graph_bounds.hpp"
#include "support/seed.hpp"
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
  // The load of each plan that the algorithms which search the links have for it, all proved.
  std::vector<LinkLoad> loads(Collective collective, int root) const {
    std::vector<LinkLoad> all;
    AlgorithmArguments machine = arguments;
    machine.collective = collective;
    machine.root = root;
    for (const Algorithm& algorithm : algorithms()) {
      if (!algorithm.uses.count || !serves(algorithm, collective)) continue;
      for (const AlgorithmArguments& it : algorithm.candidates(machine)) {
        all.push_back(link_load(verify(algorithm.make(it)), topology, placement));
      }
    }
    return all;
  }
};

// Checks one in `every` subsets of the GPUs, beginning with all of them.
void for_subsets(const char* name, const std::function<void(const Subset&, const std::string& where)>& check,
                 int every = 1) {
  const Topology topology = machine(name);
  const std::vector<int> gpus = devices_of(topology, DeviceKind::kGpu);
  for (int chosen = (1 << gpus.size()) - 1; chosen > 0; chosen -= every) {
    if (std::popcount(static_cast<unsigned>(chosen)) < 2) continue;
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

// How many rings the lanes of links have room for, each at full rate and both ways round, by trying all.
class DisjointRings {
 public:
  DisjointRings(int ranks, const std::vector<DeviceLink>& links, double lane) : ranks_(ranks) {
    for (const DeviceLink& it : links) lanes_[it.a][it.b] = lanes_[it.b][it.a] = static_cast<int>(it.gbps / lane + 0.5);
    std::vector<int> ring = {0};
    add_rings(ring);
  }

  int most(size_t first = 0) {
    int most = 0;
    for (size_t i = first; i < rings_.size(); ++i) {
      if (!change(rings_[i], -1)) continue;
      most = std::max(most, 1 + this->most(i));
      change(rings_[i], 1);
    }
    return most;
  }

 private:
  void add_rings(std::vector<int>& ring) {
    const int last = ring.back();
    if (static_cast<int>(ring.size()) == ranks_) {
      if (lanes_[last][0] > 0 && ring[1] < last) rings_.push_back(ring);
      return;
    }
    for (int next = 1; next < ranks_; ++next) {
      if (lanes_[last][next] == 0 || std::find(ring.begin(), ring.end(), next) != ring.end()) continue;
      ring.push_back(next);
      add_rings(ring);
      ring.pop_back();
    }
  }
  bool change(const std::vector<int>& ring, int lanes) {
    const auto each_link = [&](const auto& call) {
      for (size_t i = 0; i < ring.size(); ++i) call(ring[i], ring[(i + 1) % ring.size()]);
    };
    bool fits = true;
    each_link([&](int a, int b) { fits = fits && lanes_[a][b] + lanes >= 0; });
    if (fits) each_link([&](int a, int b) { lanes_[a][b] += lanes, lanes_[b][a] += lanes; });
    return fits;
  }

  const int ranks_;
  std::array<std::array<int, 8>, 8> lanes_ = {};
  std::vector<std::vector<int>> rings_;
};

// The better of the algorithms that search the links needs as long as the bound says, or a little more where shares do
// not come out even.
void expect_at_bound(const Subset& subset, Collective collective, int root, const std::string& where) {
  SCOPED_TRACE(join(where, " ", name(collective), " root ", root));
  double gbps = 0;
  for (const LinkLoad& load : subset.loads(collective, root)) gbps = std::max(gbps, 1e-9 / load.busiest_seconds);
  const double bound = test::link_bound(collective, root, subset.ranks(), subset.arguments.links);
  EXPECT_LE(gbps, bound * 1.001);
  EXPECT_GE(gbps, bound * 0.99);
}

class EverySubset : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Of, EverySubset, testing::Values("dgx1-p100", "dgx1-v100"),
                         [](const auto& info) { return std::string(info.param) == "dgx1-p100" ? "P100" : "V100"; });

TEST_P(EverySubset, ReachesTheBoundOfItsLinks) {
  constexpr int kEvery = test::kSanitized ? 11 : 1;
  int joined = 0;
  for_subsets(
      GetParam(),
      [&](const Subset& subset, const std::string& where) {
        joined += subset.nvlink_joins_all() ? 1 : 0;
        for (const Collective collective :
             {Collective::kAllReduce, Collective::kBroadcast, Collective::kReduce, Collective::kAllGather,
              Collective::kReduceScatter, Collective::kGather, Collective::kScatter}) {
          const int root = has_root(collective) ? subset.ranks() / 2 : 0;
          if (subset.nvlink_joins_all()) {
            expect_at_bound(subset, collective, root, where);
          } else {
            EXPECT_FALSE(subset.loads(collective, root).empty()) << where << " " << name(collective);
          }
        }
      },
      kEvery);
  EXPECT_EQ(joined, test::kSanitized ? 20 : 197);  // of 23, of 247
}

// As many rings as are disjoint, each at full rate, or more by sharing links. BLK-11 and D-BLK-02 say how many.
TEST_P(EverySubset, HasAtLeastItsDisjointRings) {
  const bool is_p100 = std::string(GetParam()) == "dgx1-p100";
  const double lane = is_p100 ? 20 : 25;
  std::map<std::pair<int, int>, int> subsets;  // by ranks and disjoint rings
  for_subsets(GetParam(), [&](const Subset& subset, const std::string& where) {
    if (subset.ranks() < 5) return;
    const std::vector<DeviceLink>& links = subset.arguments.links;
    const int disjoint = DisjointRings(subset.ranks(), links, lane).most();
    const double gbps = pack_rings(subset.ranks(), links, 0).gbps();
    EXPECT_GE(gbps, 2 * disjoint * lane - 1e-9) << where;
    EXPECT_LE(gbps, test::link_bound(Collective::kBroadcast, 0, subset.ranks(), links) + 1e-9) << where;
    ++subsets[{subset.ranks(), disjoint}];
  });
  const std::map<std::pair<int, int>, int> p100 = {{{5, 0}, 32}, {{5, 1}, 24}, {{6, 1}, 28}, {{7, 1}, 8}, {{8, 2}, 1}};
  const std::map<std::pair<int, int>, int> v100 = {{{5, 0}, 32}, {{5, 1}, 24}, {{6, 1}, 24},
                                                   {{6, 2}, 4},  {{7, 2}, 8},  {{8, 3}, 1}};
  EXPECT_EQ(subsets, is_p100 ? p100 : v100);
}

}  // namespace
}  // namespace plait
