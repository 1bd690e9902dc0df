// The machine's graph as ranks see it.
#include "model/rank_links.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "topology/machines.hpp"

namespace plait {
namespace {

std::vector<DeviceLink> links_of(const Topology& topology) {
  return links_between_ranks(topology, place_ranks(topology, devices_of(topology, DeviceKind::kGpu)));
}
std::vector<DeviceLink> links_of(const char* name, int nodes = 1) { return links_of(machine(name, nodes)); }

double gbps_of(const std::vector<DeviceLink>& links, int a, int b) {
  for (const DeviceLink& it : links) {
    if (it.a == a && it.b == b) return it.gbps;
  }
  return 0;
}

TEST(RankLinks, AreTheNvlinkAndXgmiLinksBetweenGpus) {
  const std::vector<DeviceLink> p100 = links_of("dgx1-p100"), v100 = links_of("dgx1-v100");
  EXPECT_EQ(p100.size(), 16u);
  EXPECT_EQ(v100.size(), 16u);
  for (const DeviceLink& it : p100) EXPECT_EQ(it.gbps, 20);
  EXPECT_EQ(gbps_of(v100, 0, 3), 50);  // two lanes
  EXPECT_EQ(gbps_of(v100, 0, 1), 25);
  EXPECT_EQ(gbps_of(v100, 0, 5), 0);
  EXPECT_EQ(links_of("mi300x-8").size(), 28u);
}

TEST(RankLinks, AreOfTheRanksInTheirOrder) {
  const Topology dgx = machine("dgx1-v100");
  const std::vector<int> gpus = devices_of(dgx, DeviceKind::kGpu);
  const Placement some = place_ranks(dgx, std::vector<int>{gpus[4], gpus[3], gpus[0]});
  EXPECT_EQ(links_between_ranks(dgx, some), (std::vector<DeviceLink>{{0, 2, 50}, {1, 2, 50}}));
}

// Each GPU's way over the X-bus has a third of its 64 GB/s.
TEST(RankLinks, JoinPartsByTheirShareOfWhatLiesBetween) {
  const std::vector<DeviceLink> summit = links_of("summit");
  ASSERT_EQ(summit.size(), 9u);
  EXPECT_EQ(gbps_of(summit, 0, 1), 50);
  for (const int rank : {0, 1, 2}) EXPECT_NEAR(gbps_of(summit, rank, rank + 3), 64.0 / 3, 1e-9);
}

TEST(RankLinks, JoinNodesByTheirShareOfTheNics) {
  const std::vector<DeviceLink> abci = links_of("abci", 2);
  EXPECT_EQ(abci.size(), 2u * 6 + 4);
  for (const int rank : {0, 1, 2, 3}) EXPECT_EQ(gbps_of(abci, rank, rank + 4), 6.25);  // of two times 12.5
}

TEST(RankLinks, AreNoneWhereNothingIsToBeFound) {
  for (const char* name : {"dgx2", "hgx-h100-8", "gb200-nvl72", "pcie-4", "kesch"}) {
    EXPECT_TRUE(links_of(name).empty()) << name;
  }
  EXPECT_TRUE(links_of("abci", 5).empty());  // more ranks than are searched
  const Topology lassen = machine("lassen");
  const std::vector<int> gpus = devices_of(lassen, DeviceKind::kGpu);
  EXPECT_TRUE(links_between_ranks(lassen, place_ranks(lassen, std::vector<int>{gpus[0], gpus[1], gpus[0]})).empty());
}

}  // namespace
}  // namespace plait
