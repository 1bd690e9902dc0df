// How the builder numbers things, and what it refuses.
#include "plan/builder.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "plan/conditions.hpp"

namespace plait {
namespace {

TEST(PlanBuilder, ShapeFollowsTheCollective) {
  const auto shape = [](Collective collective) { return PlanBuilder({"x", collective, 3, 2, 4}).finish(); };
  const Plan all_reduce = shape(Collective::kAllReduce);
  EXPECT_EQ(all_reduce.blocks, 1);
  EXPECT_EQ(all_reduce.chunk_count(), 4);
  EXPECT_EQ(all_reduce.root, 0);  // an all_reduce has none
  EXPECT_EQ(all_reduce.node_of, (std::vector<int>{0, 0, 0}));
  EXPECT_TRUE(all_reduce.in_place);
  EXPECT_EQ(shape(Collective::kBroadcast).root, 2);
  EXPECT_EQ(shape(Collective::kReduce).root, 2);
  EXPECT_EQ(shape(Collective::kAllGather).blocks, 3);
  EXPECT_EQ(shape(Collective::kAllGather).chunk_count(), 12);
  EXPECT_EQ(shape(Collective::kReduceScatter).chunk_count(), 12);
  EXPECT_EQ(shape(Collective::kBarrier).chunk_count(), 0);
}

TEST(PlanBuilder, WindowsOfTheBuffers) {
  const auto plan = [](Collective collective) { return PlanBuilder({"x", collective, 3, 2, 4}).finish(); };
  EXPECT_EQ(input_window(plan(Collective::kAllReduce), 1), (ChunkWindow{0, 1, 1, 4}));
  EXPECT_EQ(input_window(plan(Collective::kBroadcast), 1), (ChunkWindow{}));
  EXPECT_EQ(input_window(plan(Collective::kBroadcast), 2), (ChunkWindow{0, 1, 1, 4}));
  EXPECT_EQ(input_window(plan(Collective::kAllGather), 1), (ChunkWindow{4, 1, 1, 4}));
  EXPECT_EQ(output_window(plan(Collective::kAllGather), 1), (ChunkWindow{0, 3, 1, 4}));
  EXPECT_EQ(output_window(plan(Collective::kReduceScatter), 1), (ChunkWindow{4, 1, 1, 4}));
  EXPECT_EQ(output_window(plan(Collective::kReduce), 1), (ChunkWindow{}));
  EXPECT_EQ(output_window(plan(Collective::kReduce), 2), (ChunkWindow{0, 1, 1, 4}));
  EXPECT_EQ(output_window(plan(Collective::kBarrier), 0), (ChunkWindow{}));
}

TEST(PlanBuilder, ChunksOfAnOrderBecomeRunsOfTheMessage) {
  PlanBuilder b({"x", Collective::kAllReduce, 2, 0, 6});
  const QueueId from = b.add_queue(0, Engine::kNet), to = b.add_queue(1, Engine::kNet);
  const Place scratch = b.take_scratch(1, 4);
  b.number_chunks({0, 3, 4, 1, 2, 5});
  b.send_receive(from, input_of(0), to, scratch, 1, 4);
  b.copy(to, output_of(1), scratch, 1, 3);
  const Plan plan = b.finish();
  const auto& sent = plan.ranks[0].queues[0].operations;
  ASSERT_EQ(sent.size(), 2u);  // chunks 3 and 4 of the message, then 1 and 2
  EXPECT_EQ(sent[0].chunk, 3);
  EXPECT_EQ(sent[0].chunks, 2);
  EXPECT_EQ(sent[1].chunk, 1);
  EXPECT_EQ(sent[1].chunks, 2);
  EXPECT_EQ(sent[1].sources[0], input_of(0));
  EXPECT_NE(sent[0].number, sent[1].number);
  const auto& received = plan.ranks[1].queues[0].operations;
  ASSERT_EQ(received.size(), 4u);
  EXPECT_EQ(received[1].destinations[0], slot_after(scratch, 2));
  EXPECT_EQ(received[2].sources[0], scratch);
  EXPECT_EQ(received[3].sources[0], slot_after(scratch, 2));
  EXPECT_EQ(received[3].chunk, 1);
  EXPECT_EQ(received[3].chunks, 1);
  EXPECT_THROW(PlanBuilder({"x", Collective::kAllReduce, 2, 0, 6}).number_chunks({0}), Error);
}

TEST(PlanBuilder, NumbersSlotsSignalsAndMessages) {
  PlanBuilder b({"x", Collective::kAllReduce, 2});
  const QueueId a = b.add_queue(0, Engine::kCpu), second = b.add_queue(0, Engine::kNet),
                c = b.add_queue(1, Engine::kNet);
  EXPECT_EQ(a.queue, 0);
  EXPECT_EQ(second.queue, 1);
  EXPECT_EQ(c.queue, 0);
  EXPECT_EQ(b.take_scratch(0, 3).slot, 0);
  EXPECT_EQ(b.take_scratch(0).slot, 3);
  EXPECT_EQ(b.take_scratch(1).slot, 0);
  EXPECT_EQ(b.take_host(0, 2).slot, 0);
  EXPECT_EQ(slot_after(b.take_host(0), 4), (Place{0, Buffer::kHost, 6}));
  EXPECT_EQ(b.signal(a, c).number, 0);
  EXPECT_EQ(b.signal(c, a).number, 0);
  EXPECT_EQ(b.signal(second, c).number, 1);
  b.send_receive(second, input_of(0), c, {1, Buffer::kScratch, 0}, 0);
  b.send_receive(second, input_of(0), c, {1, Buffer::kScratch, 0}, 0);
  const Plan plan = b.finish();
  EXPECT_EQ(plan.ranks[0].scratch_slots, 4);
  EXPECT_EQ(plan.ranks[0].host_slots, 3);
  EXPECT_EQ(plan.ranks[1].signals, 2);
  EXPECT_EQ(plan.ranks[0].signals, 1);
  EXPECT_EQ(plan.ranks[1].messages, 2);
  EXPECT_EQ(plan.ranks[1].queues[0].operations[2].number, 1);
}

TEST(PlanBuilder, RefusesImpossibleShapes) {
  const auto code = [](PlanBuilder::Shape shape) {
    try {
      PlanBuilder builder(std::move(shape));
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  };
  EXPECT_EQ(code({"x", Collective::kAllReduce, 0}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({"x", Collective::kAllReduce, -1}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({"x", Collective::kAllReduce, 2147483647}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({"x", Collective::kBroadcast, 2, 2}), ErrorCode::kInvalidPlan);
  EXPECT_EQ(code({"x", Collective::kBroadcast, 2, -1}), ErrorCode::kInvalidPlan);
  EXPECT_EQ(code({"x", Collective::kAllReduce, 2, 0, 0}), ErrorCode::kInvalidPlan);
  EXPECT_EQ(code({"x", Collective::kAllGather, 1000, 0, 2147483647}), ErrorCode::kInvalidPlan);
  EXPECT_EQ(code({"x", Collective::kAllReduce, 2, 0, 1, Access::kStaged, {0}}), ErrorCode::kInvalidPlan);
}

TEST(PlanBuilder, RefusesMoreOperationsThanCanBeProved) {
  PlanBuilder b({.algorithm = "endless", .collective = Collective::kBarrier, .most_operations = 100});
  const QueueId queue = b.add_queue(0, Engine::kCpu);
  for (int i = 0; i < 50; ++i) b.wait(b.signal(queue, queue));
  try {
    b.wait({queue, queue, 50});
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_STREQ(error.what(),
                 "plan endless over 1 rank would have more than 100 operations; use fewer ranks or parts, or another "
                 "algorithm");
  }
  EXPECT_EQ(b.finish().ranks[0].queues[0].operations.size(), 100u);
}

TEST(ChunkWindow, TheFirstChunkThatIsNotHeld) {
  for (const ChunkWindow& window : {ChunkWindow{}, ChunkWindow{0, 3, 1, 2}, ChunkWindow{4, 1, 1, 4},
                                    ChunkWindow{2, 3, 3, 2}, ChunkWindow{1, 2, 2, 1}, ChunkWindow{0, 1, 1, 1}}) {
    for (int chunk = 0; chunk < 24; ++chunk) {
      for (int chunks = 1; chunks < 12; ++chunks) {
        int missing = -1;
        for (int i = chunk + chunks - 1; i >= chunk; --i) missing = window.contains(i) ? missing : i;
        EXPECT_EQ(window.first_missing(chunk, chunks), missing) << chunk << " " << chunks;
      }
    }
  }
}

}  // namespace
}  // namespace plait
