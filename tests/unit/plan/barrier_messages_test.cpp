// Messages without data: how a barrier gets from node to node.
#include <gtest/gtest.h>

#include "plan/json.hpp"
#include "plan/picture.hpp"
#include "plan/text.hpp"
#include "support/pair_plans.hpp"

namespace plait {
namespace {

using test::expect_refused;
using test::operation;

// Two ranks on two nodes tell each other that they have come.
Plan barrier_of_two_nodes() {
  PlanBuilder b({"pair", Collective::kBarrier, 2, 0, 1, Access::kStaged, {0, 1}});
  QueueId out[2], in[2];
  for (int rank = 0; rank < 2; ++rank) {
    out[rank] = b.add_queue(rank, Engine::kNet);
    in[rank] = b.add_queue(rank, Engine::kNet);
  }
  for (int rank = 0; rank < 2; ++rank) b.send_receive_nothing(out[rank], in[1 - rank]);
  return b.finish();
}

TEST(BarrierMessages, AreNewsOfThoseWhoHaveCome) {
  const VerifiedPlan plan = verify(barrier_of_two_nodes());
  EXPECT_TRUE(plan.report().synchronizes);
  EXPECT_EQ(plan.report().steps, 1);
  EXPECT_TRUE(plan.report().traffic.empty());
  EXPECT_EQ(plan.report().chunks_read, (std::vector<int64_t>{0, 0}));
}

TEST(BarrierMessages, AreNeeded) {
  Plan lost = barrier_of_two_nodes();
  lost.ranks[0].queues[0].operations.clear();
  lost.ranks[1].queues[1].operations.clear();
  lost.ranks[1].messages = 0;
  expect_refused(lost, {"rank 1 may leave the barrier before rank 0 has come"});
}

TEST(BarrierMessages, CarryNothing) {
  for (const auto& change :
       {+[](Operation& it) { it.chunks = 1; }, +[](Operation& it) { it.chunk = 1; },
        +[](Operation& it) { it.sources = {input_of(0)}; }, +[](Operation& it) { it.destinations = {output_of(0)}; }}) {
    Plan plan = barrier_of_two_nodes();
    change(operation(plan, 0, 0, 0));
    expect_refused(plan, {"rank 0, queue 0 (net), operation 0", "a barrier's messages carry nothing"});
  }
  Plan plan = barrier_of_two_nodes();
  plan.ranks[0].queues[0].engine = Engine::kSm;
  expect_refused(plan, {"an sm queue cannot send or receive"});
}

// For other collectives a message without data is a mistake.
TEST(BarrierMessages, AreOfBarriersOnly) {
  PlanBuilder b({"x", Collective::kAllReduce, 2, 0, 1, Access::kStaged, {0, 1}});
  const QueueId out = b.add_queue(0, Engine::kNet), in = b.add_queue(1, Engine::kNet);
  b.send_receive_nothing(out, in);
  expect_refused(b.finish(), {"a send has one source"});
}

TEST(BarrierMessages, AreWrittenReadAndDrawn) {
  const VerifiedPlan plan = verify(barrier_of_two_nodes());
  EXPECT_EQ(plan_from_json(to_json(plan.plan()), "plan.json"), plan.plan());
  EXPECT_NE(to_text(plan.plan()).find("send as message 0 to r1 queue 1 : no data"), std::string::npos);
  EXPECT_NE(to_text(plan.plan()).find("receive as message 0 from r0 queue 0 : no data"), std::string::npos);
  EXPECT_NE(to_svg(plan).find("no data"), std::string::npos);
  EXPECT_NE(to_text_picture(plan.plan()).find("net r1"), std::string::npos);
}

}  // namespace
}  // namespace plait
