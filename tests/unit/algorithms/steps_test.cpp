// Steps side by side: levels of a hierarchy that are exchanges, rings or trees of some of the ranks.
#include <gtest/gtest.h>

#include <deque>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/doubling.hpp"
#include "algorithms/steps/exchange.hpp"
#include "algorithms/steps/halving.hpp"
#include "algorithms/steps/ring.hpp"
#include "algorithms/steps/tree.hpp"
#include "unit/algorithms/plans.hpp"

namespace plait {
namespace {

constexpr int kMembers = 4, kGroups = 3, kRanks = kMembers * kGroups;

std::vector<int> group_of(int group) {
  std::vector<int> ranks;
  for (int x = 0; x < kMembers; ++x) ranks.push_back(group * kMembers + x);
  return ranks;
}

class TwoLevels : public ::testing::TestWithParam<std::tuple<Direction, bool>> {
 protected:
  Direction direction() const { return std::get<0>(GetParam()); }
  // One node for each group, or one for all.
  std::vector<int> nodes() const {
    std::vector<int> nodes;
    for (int rank = 0; rank < kRanks && std::get<1>(GetParam()); ++rank) nodes.push_back(rank / kMembers);
    return nodes;
  }
  PlanBuilder builder_of(int chunks) const {
    return PlanBuilder({"two levels", Collective::kAllReduce, kRanks, 0, chunks, Access::kStaged, nodes()});
  }
  std::vector<QueueId> add_a_queue_a_rank(PlanBuilder& builder) const {
    std::vector<QueueId> queues;
    for (int rank = 0; rank < kRanks; ++rank) queues.push_back(builder.add_queue(rank, Engine::kCpu));
    return queues;
  }
};

// Groups exchange. Ranks with the same position in their groups then form a ring around the piece that they have.
TEST_P(TwoLevels, ExchangesAroundRings) {
  PlanBuilder builder = builder_of(kMembers * kGroups);
  const std::vector<int> node_of = nodes();
  Carrier carrier(builder, node_of);
  const std::vector<QueueId> queues = add_a_queue_a_rank(builder);
  HeldByRank held = all_inputs(kRanks), outputs(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) outputs[rank] = {{output_of(rank)}};
  std::deque<Stages> stages;
  std::vector<PieceExchange> exchanges;
  for (int group = 0; group < kGroups; ++group) {
    std::vector<QueueId> members;
    for (const int rank : group_of(group)) members.push_back(queues[rank]);
    stages.emplace_back(builder, members, Engine::kCpu, false);
    exchanges.emplace_back(builder, stages.back(),
                           PieceExchange::Shape{.piece_chunks = kGroups, .direction = direction()});
    exchanges.back().reduce_scatter(held);
    for (int x = 0; x < kMembers; ++x) exchanges.back().await(x);
  }
  for (int x = 0; x < kMembers; ++x) {
    RingSteps::Shape shape;
    for (int group = 0; group < kGroups; ++group) shape.queues.push_back(queues[group * kMembers + x]);
    shape.first_chunk = x * kGroups;
    RingSteps ring(builder, carrier, shape);
    ring.reduce_scatter(held);
    ring.all_gather(held, to_outputs());
  }
  for (PieceExchange& exchange : exchanges) exchange.all_gather(outputs, to_outputs());
  const VerifiedPlan plan = verify(builder.finish());
  EXPECT_LE(plan.report().steps, 1 + 2 * (kGroups - 1) + 1);
}

// The groups' trees lead to and from their first ranks, which exchange among themselves.
TEST_P(TwoLevels, TreesAroundAnExchange) {
  if (!nodes().empty()) GTEST_SKIP() << "exchanges are of one node";
  PlanBuilder builder = builder_of(kGroups);
  const std::vector<int> node_of;
  Carrier carrier(builder, node_of);
  TreeShape shape;
  shape.queues = {add_a_queue_a_rank(builder)};
  shape.part_chunks = kGroups;
  shape.direction = direction();
  std::vector<Tree> trees;
  std::vector<QueueId> heads;
  HeldByRank sums(kRanks);
  for (int group = 0; group < kGroups; ++group) {
    const Tree& tree = trees.emplace_back(group * kMembers, kRanks);
    add_knomial(trees.back(), group_of(group));
    sums[tree.root()] = {{builder.take_scratch(tree.root(), kGroups)}};
    reduce_along(builder, carrier, tree, shape, all_inputs(kRanks), sums[tree.root()][0]);
    heads.push_back(shape.queue(0, tree.root()));
  }
  Stages stages(builder, heads, Engine::kCpu, false);
  PieceExchange exchange(builder, stages, {.direction = direction()});
  exchange.reduce_scatter(sums);
  exchange.all_gather(sums, to_outputs());
  for (const Tree& tree : trees) broadcast_along(builder, carrier, tree, shape, {output_of(tree.root())});
  const VerifiedPlan plan = verify(builder.finish());
  EXPECT_EQ(plan.report().steps, 2 + 2 + 2);
}

// Groups halve. Ranks with the same position in their groups then combine the piece that they have, by recursive
// doubling or by halving it further, over a number of groups that is no power of two.
TEST_P(TwoLevels, HalvingAroundDoublingAndHalving) {
  for (const bool doubles : {true, false}) {
    for (const Order order : {Order::kFarFirst, Order::kNearFirst}) {
      PlanBuilder builder = builder_of(kMembers * kGroups);
      const std::vector<int> node_of = nodes();
      Carrier carrier(builder, node_of);
      const std::vector<QueueId> queues = add_a_queue_a_rank(builder);
      HeldByRank held = all_inputs(kRanks), outputs(kRanks);
      for (int rank = 0; rank < kRanks; ++rank) outputs[rank] = {{output_of(rank)}};
      std::deque<HalvingSteps> outer;
      for (int group = 0; group < kGroups; ++group) {
        HalvingSteps::Shape shape;
        for (const int rank : group_of(group)) shape.queues.push_back(queues[rank]);
        shape.factors = core_factors({}, kMembers);
        shape.order = order;
        shape.piece_chunks = kGroups;
        outer.emplace_back(builder, carrier, shape).reduce_scatter(held);
        outer.back().settle();
      }
      for (int x = 0; x < kMembers; ++x) {
        std::vector<QueueId> members;
        for (int group = 0; group < kGroups; ++group) members.push_back(queues[group * kMembers + x]);
        const ChunkRange piece = outer[0].piece_of(x);
        if (doubles) {
          DoublingSteps(builder, carrier, {.queues = members, .range = piece}).all_reduce(held, to_outputs());
          continue;
        }
        HalvingSteps::Shape shape{.queues = members, .factors = core_factors({}, kGroups)};
        shape.first_chunk = piece.first;
        HalvingSteps inner(builder, carrier, shape);
        inner.reduce_scatter(held);
        inner.all_gather(held, to_outputs());
      }
      for (HalvingSteps& it : outer) it.all_gather(outputs, to_outputs());
      const VerifiedPlan plan = verify(builder.finish());
      EXPECT_LE(plan.report().steps, 2 + (doubles ? 2 : 2 * 2) + 2);
    }
  }
}

// The same the other way round: the outer level has three queues, one of them extra, which also gets a piece.
TEST_P(TwoLevels, HalvingOfThreeAroundRings) {
  PlanBuilder builder = builder_of(kMembers * kGroups);
  const std::vector<int> node_of = nodes();
  Carrier carrier(builder, node_of);
  const std::vector<QueueId> queues = add_a_queue_a_rank(builder);
  HeldByRank held = all_inputs(kRanks), outputs(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) outputs[rank] = {{output_of(rank)}};
  std::deque<HalvingSteps> outer;
  for (int x = 0; x < kMembers; ++x) {
    HalvingSteps::Shape shape;
    for (int group = 0; group < kGroups; ++group) shape.queues.push_back(queues[group * kMembers + x]);
    shape.factors = core_factors({}, kGroups);
    shape.piece_chunks = kMembers;
    outer.emplace_back(builder, carrier, shape).reduce_scatter(held);
    outer.back().settle();
  }
  for (int group = 0; group < kGroups; ++group) {
    RingSteps::Shape shape;
    for (const int rank : group_of(group)) shape.queues.push_back(queues[rank]);
    shape.first_chunk = outer[0].piece_of(group).first;
    RingSteps ring(builder, carrier, shape);
    ring.reduce_scatter(held);
    ring.all_gather(held, to_outputs());
  }
  for (HalvingSteps& it : outer) it.all_gather(outputs, to_outputs());
  EXPECT_NO_THROW(verify(builder.finish()));
}

INSTANTIATE_TEST_SUITE_P(Steps, TwoLevels,
                         ::testing::Combine(::testing::Values(Direction::kLoad, Direction::kStore), ::testing::Bool()));

}  // namespace
}  // namespace plait
