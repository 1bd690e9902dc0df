// Plans in words.
#include "plan/text.hpp"

#include <gtest/gtest.h>

#include "plan/builder.hpp"
#include "property/plan_zoo.hpp"

namespace plait {
namespace {

TEST(PlanText, PlacesNameSlotsOnlyWhereThereAreSlots) {
  EXPECT_EQ(to_text(Place{2, Buffer::kScratch, 3}), "r2.scratch[3]");
  EXPECT_EQ(to_text(Place{0, Buffer::kHost, 0}), "r0.host[0]");
  EXPECT_EQ(to_text(Place{0, Buffer::kInput, 0}), "r0.input");
  EXPECT_EQ(to_text(Place{11, Buffer::kOutput, 0}), "r11.output");
}

TEST(PlanText, Operations) {
  PlanBuilder b({"x", Collective::kAllReduce, 2, 0, 4, Access::kZeroCopy});
  const QueueId a = b.add_queue(0, Engine::kCpu), c = b.add_queue(1, Engine::kCpu);
  const Place scratch = b.take_scratch(1, 2);
  b.reduce(a, {output_of(0), scratch}, {input_of(0), input_of(1)}, 3);
  b.copy(a, scratch, input_of(0), 1, 2);
  b.wait(b.signal(a, c));
  b.send_receive(a, input_of(0), c, scratch, 0, 2);
  const Plan plan = b.finish();
  const auto& left = plan.ranks[0].queues[0].operations;
  const auto& right = plan.ranks[1].queues[0].operations;
  EXPECT_EQ(to_text(left[0]), "reduce r0.output, r1.scratch[0] <- r0.input + r1.input : chunk 3");
  EXPECT_EQ(to_text(left[1]), "reduce r1.scratch[0] <- r0.input : chunks 1..2");
  EXPECT_EQ(to_text(left[2]), "signal 0 of r1 queue 0");
  EXPECT_EQ(to_text(left[3]), "send r0.input as message 0 to r1 queue 0 : chunks 0..1");
  EXPECT_EQ(to_text(right[0]), "wait 0 from r0 queue 0");
  EXPECT_EQ(to_text(right[1]), "receive r1.scratch[0] as message 0 from r0 queue 0 : chunks 0..1");
}

TEST(PlanText, WholePlan) {
  EXPECT_EQ(to_text(test::chain_broadcast(2, 1, 1)),
            "plan zoo chain: broadcast over 2 ranks, root 1, 1 chunk, access staged, in place or not\n"
            "rank 0 (node 0, 2 scratch slots, 0 host slots, 1 signal)\n"
            "  queue 0 (cpu)\n"
            "    0: wait 0 from r1 queue 0\n"
            "    1: reduce r0.output <- r0.scratch[0] : chunk 0\n"
            "rank 1 (node 0, 2 scratch slots, 0 host slots, 0 signals)\n"
            "  queue 0 (cpu)\n"
            "    0: reduce r0.scratch[0] <- r1.input : chunk 0\n"
            "    1: signal 0 of r0 queue 0\n"
            "    2: reduce r1.output <- r1.input : chunk 0\n");
}

TEST(PlanText, SaysWhichChunkOfAnExchangeGoesWhere) {
  EXPECT_EQ(to_text(test::push_all_to_all(3, 1))
                .find("plan zoo exchange: all_to_all over 3 ranks, 9 chunks, access "
                      "staged, in place or not\n"
                      "chunk 3 i + j: from rank i to rank j\n"
                      "rank 0 "),
            0U);
  const std::string text = to_text(test::push_all_to_all(2, 3));
  EXPECT_NE(text.find("\nchunks 3 (2 i + j) and the 2 after it: from rank i to rank j\n"), std::string::npos) << text;
}

TEST(PlanText, AbsurdRangesPrintWithoutOverflow) {
  Operation reduce;
  reduce.chunk = 2147483647;
  reduce.chunks = 2147483647;
  EXPECT_EQ(to_text(reduce), "reduce  <-  : chunks 2147483647..4294967293");
}

}  // namespace
}  // namespace plait
