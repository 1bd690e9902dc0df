// Shifts of nodes, and plans that look alike under them.
#include "plan/fold.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "plan/builder.hpp"
#include "support/seed.hpp"

namespace plait {
namespace {

using test::between;
using test::one_in;
using test::Random;

NodeShifts random_shifts(Random& random) {
  std::vector<NodeDigit> digits;
  int ranks = static_cast<int>(between(random, 1, 4));
  for (uint64_t i = between(random, 0, 3); i > 0; --i) {
    digits.push_back({static_cast<int>(between(random, 1, 5)), one_in(random, 3)});
    ranks *= digits.back().factor;
  }
  return NodeShifts(ranks, digits);
}

TEST(NodeShifts, EachRankIsTheImageOfOneByOneShift) {
  Random random(test::run_seed());
  for (int round = 0; round < 200; ++round) {
    const NodeShifts shifts = random_shifts(random);
    std::set<int> standing;
    for (int rank = 0; rank < shifts.ranks(); ++rank) {
      const int like = shifts.representative(rank);
      EXPECT_TRUE(shifts.is_representative(like));
      EXPECT_EQ(shifts.shifted(like, rank), rank);
      EXPECT_EQ(shifts.unshifted(rank, rank), like);
      standing.insert(like);
    }
    EXPECT_EQ(standing.size() * static_cast<size_t>(shifts.shifts()), static_cast<size_t>(shifts.ranks()));
  }
}

TEST(NodeShifts, AShiftPermutesRanksAndIsUndone) {
  Random random(test::run_seed());
  for (int round = 0; round < 200; ++round) {
    const NodeShifts shifts = random_shifts(random);
    const int by = static_cast<int>(between(random, 0, static_cast<uint64_t>(shifts.ranks() - 1)));
    std::set<int> images;
    for (int rank = 0; rank < shifts.ranks(); ++rank) {
      EXPECT_EQ(shifts.unshifted(shifts.shifted(rank, by), by), rank);
      EXPECT_EQ(shifts.representative(shifts.shifted(rank, by)), shifts.representative(rank));
      images.insert(shifts.shifted(rank, by));
    }
    EXPECT_EQ(images.size(), static_cast<size_t>(shifts.ranks()));
  }
}

TEST(NodeShifts, GeneratorsReachWhateverShiftsReach) {
  Random random(test::run_seed());
  for (int round = 0; round < 200; ++round) {
    const NodeShifts shifts = random_shifts(random);
    std::set<int> reached = {0};
    std::vector<int> next = {0};
    while (!next.empty()) {
      const int node = next.back();
      next.pop_back();
      for (const int generator : shifts.generators()) {
        const int image = shifts.shifted_node(node, generator);
        if (reached.insert(image).second) next.push_back(image);
      }
    }
    EXPECT_EQ(reached.size(), static_cast<size_t>(shifts.shifts()));
  }
}

TEST(NodeShifts, RefusesNodesThatAreNotThere) {
  EXPECT_THROW(NodeShifts(8, {{3, false}}), Error);
  EXPECT_THROW(NodeShifts(8, {{4, false}, {4, false}}), Error);
  EXPECT_THROW(NodeShifts(8, {{0, false}}), Error);
}

// A ring of sends, in which `odd` says what one rank does in another way.
enum class Odd { kNothing, kChunks, kPeer, kOrder, kMore };

Plan ring_of_sends(int ranks, int odd_rank, Odd odd, PlanFold* fold) {
  std::vector<int> node_of;
  for (int rank = 0; rank < ranks; ++rank) node_of.push_back(rank);
  PlanBuilder builder(
      {"odd", Collective::kAllReduce, ranks, 0, 4, Access::kStaged, node_of, PlanBuilder::kMaxOperations, fold});
  std::vector<QueueId> queues;
  for (int rank = 0; rank < ranks; ++rank) queues.push_back(builder.add_queue(rank, Engine::kCpu));
  for (int rank = 0; rank < ranks; ++rank) {
    const bool is_odd = rank == odd_rank;
    const int chunks = is_odd && odd == Odd::kChunks ? 2 : 1;
    const auto to = static_cast<size_t>((rank + (is_odd && odd == Odd::kPeer ? 2 : 1)) % ranks);
    const Place landing = builder.take_scratch(static_cast<int>(to), 4);
    const auto compute = [&] {
      builder.copy(queues[static_cast<size_t>(rank)], builder.take_scratch(rank, 4), input_of(rank), 0, 2);
    };
    if (is_odd && odd == Odd::kOrder) compute();
    builder.send_receive(queues[static_cast<size_t>(rank)], input_of(rank), queues[to], landing, 0, chunks);
    if (!is_odd || odd != Odd::kOrder) compute();
    if (is_odd && odd == Odd::kMore) compute();
  }
  return builder.finish();
}

TEST(PlanFold, KeepsTheOperationsOfThoseThatStandForOthers) {
  PlanFold fold(NodeShifts(6, {{6, true}}));
  const Plan plan = ring_of_sends(6, 0, Odd::kNothing, &fold);
  const Plan whole = ring_of_sends(6, 0, Odd::kNothing, nullptr);
  EXPECT_EQ(fold.operations(), 18u);
  for (size_t rank = 0; rank < 6; ++rank) EXPECT_EQ(plan.ranks[rank], whole.ranks[rank]);
}

TEST(PlanFold, RefusesAPlanOfWhichOneRankIsOdd) {
  Random random(test::run_seed());
  for (int round = 0; round < 100; ++round) {
    const int half = static_cast<int>(between(random, 2, 5));
    const std::vector<NodeDigit> digits = {{2, false}, {half, one_in(random, 2)}};
    const int odd_rank = static_cast<int>(between(random, 0, static_cast<uint64_t>(2 * half - 1)));
    for (const Odd odd : {Odd::kChunks, Odd::kPeer, Odd::kOrder, Odd::kMore}) {
      PlanFold fold(NodeShifts(2 * half, digits));
      EXPECT_THROW(ring_of_sends(2 * half, odd_rank, odd, &fold), NotSymmetric) << static_cast<int>(odd);
    }
  }
}

}  // namespace
}  // namespace plait
