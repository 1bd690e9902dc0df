#include "api/c/batches.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>

namespace plait::c {
namespace {

using Turns = std::vector<std::vector<size_t>>;

constexpr SegmentIdentity kSmall{1, 7}, kWide{1, 3}, kOther{2, 7};

TEST(Turns, OfNothingThereAreNone) { EXPECT_EQ(turns_of({}), Turns{}); }

TEST(Turns, RanksOfOneCommunicatorGoTogether) {
  const std::vector<RankCall> calls = {{0, 0, kWide}, {1, 1, kWide}, {0, 0, kWide}, {1, 1, kWide}};
  EXPECT_EQ(turns_of(calls), (Turns{{0, 1}, {2, 3}}));
}

TEST(Turns, AlsoWhereOneRankIsCalledForAllItsCallsFirst) {
  const std::vector<RankCall> calls = {{0, 0, kWide}, {0, 0, kWide}, {1, 1, kWide}, {1, 1, kWide}};
  EXPECT_EQ(turns_of(calls), (Turns{{0, 2}, {1, 3}}));
}

TEST(Turns, AlsoWhereTheyShareAGpu) {
  const std::vector<RankCall> calls = {{0, 0, kWide}, {0, 0, kWide}, {0, 1, kWide}, {0, 1, kWide}};
  EXPECT_EQ(turns_of(calls), (Turns{{0, 2}, {1, 3}}));
}

TEST(Turns, AWideCommunicatorWaitsForASmallOne) {
  const std::vector<RankCall> calls = {{0, 0, kSmall}, {1, 1, kSmall}, {0, 0, kWide},
                                       {1, 1, kWide},  {2, 2, kWide},  {3, 3, kWide}};
  EXPECT_EQ(turns_of(calls), (Turns{{0, 1}, {2, 3, 4, 5}}));
}

TEST(Turns, CommunicatorsOnDifferentGpusGoSideBySide) {
  const std::vector<RankCall> calls = {{0, 0, kSmall}, {2, 0, kOther}, {1, 1, kSmall}, {3, 1, kOther}};
  EXPECT_EQ(turns_of(calls), (Turns{{0, 1, 2, 3}}));
}

TEST(Turns, WhereOrdersContradictEachOtherTheEarliestGoesAlone) {
  const std::vector<RankCall> calls = {{0, 0, kSmall}, {0, 0, kWide}, {1, 1, kWide}, {1, 1, kSmall}};
  EXPECT_EQ(turns_of(calls), (Turns{{0}, {1, 2}, {3}}));
}

TEST(Turns, CallsOfTwoCommunicatorsAreNotMixedWhereRanksShareAGpu) {
  const std::vector<RankCall> calls = {{0, 0, kSmall}, {0, 0, kWide}, {0, 1, kSmall}, {0, 1, kWide}};
  EXPECT_EQ(turns_of(calls), (Turns{{0}, {1}, {2}, {3}}));
}

TEST(Turns, ARankWithMoreCallsThanOthersMakesThemLast) {
  const std::vector<RankCall> calls = {{0, 0, kWide}, {0, 0, kWide}, {1, 1, kWide}};
  EXPECT_EQ(turns_of(calls), (Turns{{0, 2}, {1}}));
}

// Groups in which all GPUs have the calls in one order, noted by any rank first.
TEST(Turns, OfCallsInOneOrderNeverDivideACommunicator) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const auto up_to = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
    const int gpus = up_to(6);
    std::vector<std::vector<int>> communicators(static_cast<size_t>(up_to(4)));  // the GPU of each rank
    for (std::vector<int>& devices : communicators) {
      devices.resize(static_cast<size_t>(up_to(6)));
      for (int& device : devices) device = up_to(gpus) - 1;
    }
    std::vector<RankCall> calls;
    std::map<int, std::vector<RankCall>> by_gpu;
    for (int collective = up_to(12); collective > 0; --collective) {
      const int which = up_to(static_cast<int>(communicators.size())) - 1;
      const std::vector<int>& devices = communicators[static_cast<size_t>(which)];
      for (int rank = 0; rank < std::ssize(devices); ++rank) {
        const int device = devices[static_cast<size_t>(rank)];
        by_gpu[device].push_back({device, rank, {1, static_cast<uint64_t>(which)}});
      }
    }
    while (!by_gpu.empty()) {
      const auto gpu = std::next(by_gpu.begin(), up_to(static_cast<int>(by_gpu.size())) - 1);
      calls.push_back(gpu->second.front());
      gpu->second.erase(gpu->second.begin());
      if (gpu->second.empty()) by_gpu.erase(gpu);
    }
    std::set<size_t> made;
    for (const std::vector<size_t>& turn : turns_of(calls)) {
      std::map<SegmentIdentity, std::set<int>> ranks;
      for (const size_t call : turn) {
        EXPECT_TRUE(made.insert(call).second) << "seed " << seed;
        EXPECT_TRUE(ranks[calls[call].communicator].insert(calls[call].rank).second) << "seed " << seed;
        for (size_t earlier = 0; earlier < call; ++earlier) {
          const RankCall &it = calls[earlier], &its = calls[call];
          if (it.device != its.device || (it.communicator == its.communicator && it.rank != its.rank)) continue;
          EXPECT_TRUE(made.contains(earlier)) << "seed " << seed;
        }
      }
      for (const auto& [communicator, its_ranks] : ranks) {
        EXPECT_EQ(its_ranks.size(), communicators[communicator.number].size()) << "seed " << seed;
      }
    }
    EXPECT_EQ(made.size(), calls.size()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace plait::c
