// Plans of all algorithms with their messages between host slots.
#include "plan/through_host.hpp"

#include <gtest/gtest.h>

#include <random>

#include "base/error.hpp"
#include "plan/builder.hpp"
#include "plan/shape.hpp"
#include "plan/verifier.hpp"
#include "support/algorithm_plans.hpp"
#include "support/seed.hpp"

namespace plait {
namespace {

// Between nodes.
int messages_of(const Plan& plan) {
  int messages = 0;
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    for (const Queue& queue : plan.ranks[static_cast<size_t>(rank)].queues) {
      for (const Operation& it : queue.operations) {
        messages += it.kind == OpKind::kReceive && crosses_nodes(plan, rank, it) ? 1 : 0;
      }
    }
  }
  return messages;
}

int copies_added(const Plan& before, const Plan& after) {
  return static_cast<int>(after.operation_count() - before.operation_count());
}

TEST(ThroughHost, EveryAlgorithmStaysRight) {
  std::mt19937_64 random(test::run_seed());
  int with_messages = 0;
  for (const Algorithm& algorithm : algorithms()) {
    for (const Collective collective : algorithm.collectives) {
      for (const int ranks : {2, 3, 5, 8}) {
        AlgorithmArguments machine;
        machine.collective = collective;
        machine.ranks = ranks;
        machine.root = has_root(collective) ? static_cast<int>(random() % static_cast<uint64_t>(ranks)) : 0;
        for (int rank = 0; rank < ranks; ++rank) machine.node_of.push_back(static_cast<int>(random() % 3));
        for (const AlgorithmArguments& form : test::forms_of(algorithm, machine, {1, 3})) {
          const Plan plan = algorithm.make(form);
          const Plan rewritten = through_host(plan);
          const VerifiedPlan proved = verify(rewritten);
          const std::string what = join(plan.algorithm, " of ", ranks, " ranks, ", name(collective));
          ASSERT_TRUE(has_messages_in_host(rewritten)) << what;
          ASSERT_EQ(messages_of(rewritten), messages_of(plan)) << what;
          ASSERT_EQ(proved.report().steps, verify(plan).report().steps) << what;
          ASSERT_EQ(through_host(rewritten), rewritten) << what;
          if (has_messages_in_host(plan)) {
            ASSERT_EQ(rewritten, plan) << what;
          }
          with_messages += messages_of(plan) > 0 ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(with_messages, 100);
}

// Rank 0 sends its input in three messages, of which one arrives in scratch.
TEST(ThroughHost, ScratchMovesAndBuffersAreCopied) {
  PlanBuilder b({"pair", Collective::kBroadcast, 2, 0, 3, Access::kStaged, {0, 1}});
  const QueueId out = b.add_queue(0, Engine::kCpu), in = b.add_queue(1, Engine::kNet);
  const Place landing = b.take_scratch(1, 1);
  const QueueId sm = b.add_queue(1, Engine::kSm);
  b.send_receive(out, input_of(0), in, landing, 0, 1);
  b.send_receive(out, input_of(0), in, output_of(1), 1, 1);
  b.send_receive(out, input_of(0), in, output_of(1), 2, 1);
  b.copy(out, output_of(0), input_of(0), 0, 3);
  b.wait(b.signal(in, sm));
  b.copy(sm, output_of(1), landing, 0, 1);
  const Plan plan = b.finish();
  const Plan rewritten = through_host(plan);
  verify(rewritten);
  EXPECT_EQ(rewritten.ranks[1].scratch_slots, 0);
  EXPECT_EQ(rewritten.ranks[0].host_slots, 2) << "two areas for three sends";
  EXPECT_EQ(rewritten.ranks[1].host_slots, 1 + 1) << "scratch that moved, and one area for two receives";
  EXPECT_EQ(copies_added(plan, rewritten), 3 + 2);
  EXPECT_EQ(rewritten.ranks[1].queues[0].engine, Engine::kCpu) << "a net queue copies nothing";
}

}  // namespace
}  // namespace plait
