// Rabenseifner's algorithm in both orders of distances (NVG-31, UEN-07), over any number of ranks.
#include <gtest/gtest.h>

#include <bit>
#include <numeric>

#include "algorithms/spec.hpp"
#include "unit/algorithms/plans.hpp"

namespace plait {
namespace {

AlgorithmArguments halving_of(int ranks, Order order = Order::kFarFirst,
                              Collective collective = Collective::kAllReduce) {
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = ranks;
  arguments.order = order;
  return arguments;
}

std::vector<int> all_sizes() {
  std::vector<int> sizes(33);
  std::iota(sizes.begin(), sizes.end(), 1);
  sizes.insert(sizes.end(), {48, 64, 96, 128});
  return sizes;
}

int64_t given_to_others(const PlanReport& report, int rank) {
  int64_t chunks = 0;
  for (const Traffic& it : report.traffic) chunks += it.from.rank == rank && it.to.rank != rank ? it.chunks : 0;
  return chunks;
}

std::vector<int> partners(const Plan& plan, int rank) {
  std::vector<int> partners;
  for (const Operation& wait : test::operations(plan, rank, OpKind::kWait)) partners.push_back(wait.peer_rank);
  return partners;
}

// 2 log2 p steps and 2 (p-1)/p M for powers of two (6); 2 more steps, and M to and from a rank that remains (6b).
TEST(Rabenseifner, StepsAndBytesAreThoseOfThePaper) {
  for (const int ranks : all_sizes()) {
    const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))), extras = ranks - core;
    const int rounds = std::bit_width(static_cast<unsigned>(core)) - 1;
    for (const Order order : {Order::kFarFirst, Order::kNearFirst}) {
      const VerifiedPlan plan = test::verified("rabenseifner", halving_of(ranks, order));
      EXPECT_EQ(plan.report().steps, 2 * rounds + (extras > 0 ? 2 : 0)) << ranks;
      EXPECT_EQ(plan.plan().chunk_count(), core);
      for (int rank = 0; rank < ranks; ++rank) {
        const bool is_extra = rank < 2 * extras && rank % 2 == 1, has_extra = rank < 2 * extras && rank % 2 == 0;
        const int64_t expected = is_extra ? core : 2 * (core - 1) + (has_extra ? core : 0);
        EXPECT_EQ(given_to_others(plan.report(), rank), expected) << rank << " of " << ranks;
      }
    }
  }
}

TEST(Rabenseifner, ReduceScatterAndAllGatherOfAnyNumber) {
  for (const int ranks : all_sizes()) {
    const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))), extras = ranks - core;
    const int rounds = std::bit_width(static_cast<unsigned>(core)) - 1;
    for (const Collective collective : {Collective::kReduceScatter, Collective::kAllGather}) {
      const VerifiedPlan plan = test::verified("rabenseifner", halving_of(ranks, Order::kFarFirst, collective));
      EXPECT_EQ(plan.report().steps, rounds + (extras == 0 ? 0 : 2 * extras > core ? 2 : 1));
      // Whole ranges move, so there are few operations.
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_LE(test::operations(plan.plan(), rank, OpKind::kReduce).size(), 2U * rounds + 6);
      }
    }
  }
}

TEST(Rabenseifner, PartnersInBothOrders) {
  const Plan far = make_plan("rabenseifner(far_first)", halving_of(8));
  const Plan near = make_plan("rabenseifner(near_first)", halving_of(8));
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(partners(far, rank), (std::vector{rank ^ 4, rank ^ 2, rank ^ 1, rank ^ 1, rank ^ 2, rank ^ 4}));
    EXPECT_EQ(partners(near, rank), (std::vector{rank ^ 1, rank ^ 2, rank ^ 4, rank ^ 4, rank ^ 2, rank ^ 1}));
  }
}

// After the reduce-scatter of four ranks, ranks 0, 2, 1, 3 hold chunks 1 to 4 (UEN-13). Far first they lie in order.
TEST(Rabenseifner, WhoHoldsWhatBetweenThePhases) {
  const auto holder = [](const Plan& plan, int chunk) {
    for (int rank = 0; rank < plan.rank_count(); ++rank) {
      for (const Operation& reduce : test::operations(plan, rank, OpKind::kReduce)) {
        if (reduce.chunk == chunk && reduce.chunks == 1 && reduce.sources.size() == 3) return rank;
      }
    }
    return -1;
  };
  const Plan near = make_plan("rabenseifner(near_first)", halving_of(4));
  const Plan far = make_plan("rabenseifner(far_first)", halving_of(4));
  for (int chunk = 0; chunk < 4; ++chunk) {
    EXPECT_EQ(holder(near, chunk), std::vector({0, 2, 1, 3})[chunk]);
    EXPECT_EQ(holder(far, chunk), chunk);
  }
}

// Near first, half of the message crosses the nearest link; far first it crosses the farthest.
TEST(Rabenseifner, OrderDecidesWhichLinkCarriesHalf) {
  const auto bytes = [](Order order, int distance) {
    const VerifiedPlan plan = test::verified("rabenseifner", halving_of(8, order));
    return test::traffic_between(plan.report(), {0, false}, {distance, false});
  };
  EXPECT_EQ(bytes(Order::kFarFirst, 4), 2 * 4);
  EXPECT_EQ(bytes(Order::kFarFirst, 1), 2 * 1);
  EXPECT_EQ(bytes(Order::kNearFirst, 1), 2 * 4);
  EXPECT_EQ(bytes(Order::kNearFirst, 4), 2 * 1);
}

// 4-Rabenseifner: groups of four, then pairs (UEN-44). The bytes stay the least.
TEST(Rabenseifner, AnyFactors) {
  for (const char* text : {"4x2x2", "4x4", "2x8", "16", "2x2x2x2", "1x4x4"}) {
    const auto plan = test::verified(join("rabenseifner(", text, ", near_first)"), halving_of(16));
    for (int rank = 0; rank < 16; ++rank) EXPECT_EQ(given_to_others(plan.report(), rank), 2 * 15) << text;
  }
  EXPECT_EQ(test::verified("rabenseifner(4x2x2)", halving_of(16)).report().steps, 6);
  EXPECT_EQ(test::verified("rabenseifner(16)", halving_of(16)).report().steps, 2);
  EXPECT_EQ(test::verified("rabenseifner(3x2)", halving_of(6)).report().steps, 4);  // no rank remains
  EXPECT_EQ(test::verified("rabenseifner(3x2)", halving_of(11)).report().steps, 6);
}

TEST(Rabenseifner, MessagesOnlyBetweenNodes) {
  AlgorithmArguments arguments = halving_of(8, Order::kNearFirst);
  arguments.node_of = {0, 0, 0, 0, 1, 1, 1, 1};
  const VerifiedPlan plan = test::verified("rabenseifner", arguments);
  EXPECT_EQ(test::count(plan.plan(), OpKind::kSend), 2 * 8);  // one each way, of an eighth
  EXPECT_EQ(plan.report().steps, 6);
}

TEST(Rabenseifner, RefusesOtherFactorsAndOrders) {
  for (const char* text : {"rabenseifner(3x3)", "rabenseifner(2x2)", "rabenseifner(9)"}) {
    test::expect_invalid([&] { make_plan(text, halving_of(8)); },
                         "has to be more than half of the 8 ranks, and not more than all of them");
  }
  test::expect_invalid([] { make_plan("rabenseifner(near_first)", halving_of(8, {}, Collective::kReduceScatter)); },
                       "the blocks of a reduce_scatter lie in the order of the ranks, so it begins far_first");
}

}  // namespace
}  // namespace plait
