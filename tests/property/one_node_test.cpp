// Plans over several nodes on one: every algorithm's, with messages as stores into mailboxes, is proved again.
#include "plan/one_node.hpp"

#include <gtest/gtest.h>

#include "algorithms/algorithm.hpp"
#include "plan/shape.hpp"
#include "plan/verifier.hpp"

namespace plait {
namespace {

TEST(OneNode, PlansStayRightWithoutMessages) {
  int with_messages = 0;
  for (const Algorithm& algorithm : algorithms()) {
    for (const Collective collective : algorithm.collectives) {
      for (const int ranks : {2, 3, 4, 6, 8}) {
        for (const int on_a_node : {1, 2, 3}) {
          AlgorithmArguments machine;
          machine.collective = collective;
          machine.ranks = ranks;
          machine.root = has_root(collective) ? ranks - 1 : 0;
          for (int rank = 0; rank < ranks; ++rank) machine.node_of.push_back(rank / on_a_node);
          for (const AlgorithmArguments& arguments : algorithm.candidates(machine)) {
            const VerifiedPlan plan = verify(algorithm.make(arguments));
            EXPECT_EQ(spans_nodes(plan.plan()), ranks > on_a_node);
            const VerifiedPlan here = verify(on_one_node(plan.plan()));
            EXPECT_FALSE(spans_nodes(here.plan())) << plan.plan().algorithm;
            EXPECT_EQ(here.report().steps, plan.report().steps) << plan.plan().algorithm;
            for (const RankPlan& rank : plan.plan().ranks) with_messages += rank.messages > 0;
          }
        }
      }
    }
  }
  EXPECT_GT(with_messages, 100);
}

}  // namespace
}  // namespace plait
