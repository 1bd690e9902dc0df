// Pictures of plans.
#include "plan/picture.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "plan/builder.hpp"
#include "plan/layout.hpp"
#include "property/plan_zoo.hpp"

namespace plait {
namespace {

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

// Checks that elements are closed in the order in which they were opened, and that quotes are paired.
void expect_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  for (size_t at = svg.find('<'); at != std::string::npos; at = svg.find('<', at + 1)) {
    const size_t end = svg.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = svg.substr(at + 1, end - at - 1);
    ASSERT_EQ(count(tag, "\"") % 2, 0) << tag;
    const std::string name = tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" /", 1) - (tag[0] == '/' ? 1 : 0));
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty()) << tag;
      ASSERT_EQ("/" + open.back(), tag);
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

int boxes(const Plan& plan) {
  int boxes = 0;
  for (const RankPlan& rank : plan.ranks) {
    for (const Queue& queue : rank.queues) {
      for (const Operation& o : queue.operations) boxes += o.kind != OpKind::kSignal && o.kind != OpKind::kWait;
    }
  }
  return boxes;
}

TEST(Picture, EveryPlanOfTheZooIsDrawnWhole) {
  for (const Plan& plan : test::zoo()) {
    const std::string svg = to_svg(verify(plan));
    SCOPED_TRACE(plan.algorithm);
    expect_well_formed(svg);
    EXPECT_EQ(count(svg, "<title>"), boxes(plan));
    EXPECT_NE(svg.find(">" + plan.algorithm + ": " + name(plan.collective) + "</text>"), std::string::npos);
    EXPECT_EQ(svg.find("not drawn"), std::string::npos);
    for (int rank = 0; rank < plan.rank_count(); ++rank) {
      EXPECT_NE(svg.find(">rank " + std::to_string(rank)), std::string::npos);
    }
  }
}

TEST(Picture, BoxesTellTheirOperation) {
  const std::string svg = to_svg(verify(test::ring_all_reduce(3)));
  EXPECT_NE(
      svg.find(
          "<title>rank 0 queue 0 operation 3: reduce r1.scratch[1] &lt;- r0.scratch[0] + r0.input : chunk 2</title>"),
      std::string::npos);
  EXPECT_NE(svg.find(">s0+in → r1.s1</text>"), std::string::npos);
  EXPECT_EQ(count(svg, "stroke-width=\"1.8\" marker-end=\"url(#data)\""), 3 * 4 + 1);  // and the legend's
  EXPECT_EQ(count(svg, "marker-end=\"url(#signal)\""), 3 * 4 + 1);
}

TEST(Picture, MessagesHaveArrowsOfTheirOwn) {
  const std::string svg = to_svg(verify(test::two_node_all_reduce(2, 1)));
  EXPECT_EQ(count(svg, "marker-end=\"url(#net)\""), 2 + 1);
  EXPECT_NE(svg.find("rank 2 · node 1"), std::string::npos);
}

TEST(Picture, NamesAreEscaped) {
  Plan plan = test::chain_broadcast(2, 0, 1);
  plan.algorithm = "a<b & \"c\"\n";
  const std::string svg = to_svg(verify(plan));
  expect_well_formed(svg);
  EXPECT_NE(svg.find("a&lt;b &amp; &quot;c&quot; : broadcast"), std::string::npos);
}

// Twelve queues have boxes of 86 pixels, in columns of 112.
TEST(Picture, WordsThatDoNotFitAreShorter) {
  PlanBuilder b({"x", Collective::kBroadcast, 12, 0, 100});
  const Place slots = b.take_scratch(0, 100);
  const QueueId root = b.add_queue(0, Engine::kCpu);
  b.reduce(root, {output_of(0), slots}, {input_of(0)}, 0, 100);
  for (int rank = 1; rank < 12; ++rank) {
    const QueueId queue = b.add_queue(rank, Engine::kCpu);
    b.wait(b.signal(root, queue));
    b.copy(queue, output_of(rank), slots, 0, 10);
    b.copy(queue, output_of(rank), slot_after(slots, 10), 10, 90);
  }
  const std::string svg = to_svg(verify(b.finish()));
  EXPECT_EQ(count(svg, ">chunks 0-9</text>"), 11);
  EXPECT_EQ(count(svg, ">10-99</text>"), 11);
  const std::string nodes = to_svg(verify(test::two_node_all_reduce(6, 1)));
  EXPECT_NE(nodes.find(">r11 · n1</text>"), std::string::npos);
}

// Data that is loaded comes from the queue that stored it.
TEST(Picture, LoadsBeginBesideTheQueueThatWrote) {
  PlanBuilder b({"x", Collective::kBroadcast, 2, 0, 1});
  const QueueId idle = b.add_queue(0, Engine::kCpu), writes = b.add_queue(0, Engine::kCpu);
  const QueueId reads = b.add_queue(1, Engine::kCpu);
  const Place slot = b.take_scratch(0);
  b.wait(b.signal(writes, idle));
  b.reduce(writes, {output_of(0), slot}, {input_of(0)}, 0);
  b.wait(b.signal(writes, reads));
  b.copy(reads, output_of(1), slot, 0);
  const std::string svg = to_svg(verify(b.finish()));
  expect_well_formed(svg);
  EXPECT_EQ(count(svg, "<circle cx=\"277\""), 1) << svg;  // the middle of queue 1: 28 + 1.5 * 170 - 6
  EXPECT_EQ(count(svg, "<circle"), 1 + 1);                // and the legend's
  EXPECT_NE(svg.find("loaded from where the dot is"), std::string::npos);
}

// Boxes of many ranks are small and without words, so that all of a ring of 64 can be seen at once.
TEST(Picture, ManyRanksAreDrawnWhole) {
  const Plan ring = test::ring_all_reduce(64);
  const std::string svg = to_svg(verify(ring));
  expect_well_formed(svg);
  EXPECT_EQ(svg.find("not drawn"), std::string::npos);
  EXPECT_EQ(count(svg, "<title>"), boxes(ring));
  EXPECT_NE(svg.find(">63</text>"), std::string::npos);
  EXPECT_EQ(svg.find(">chunk "), std::string::npos);
  EXPECT_EQ(count(svg, "marker-end=\"url(#data)\""), 64 * 2 * 63 + 1);  // and the legend's
  EXPECT_EQ(count(svg, "marker-end=\"url(#signal)\""), 1);              // the legend's alone
}

// Lines from each of many ranks to each other would cover one another.
TEST(Picture, ManyRanksShareALineToEachOther) {
  PlanBuilder b({"x", Collective::kAllReduce, 32, 0, 1});
  std::vector<QueueId> queues;
  std::vector<Place> slots;
  for (int rank = 0; rank < 32; ++rank) {
    queues.push_back(b.add_queue(rank, Engine::kCpu));
    slots.push_back(b.take_scratch(rank));
    b.copy(queues[rank], slots[rank], input_of(rank), 0);
  }
  std::vector<SignalId> ready;
  for (const QueueId& from : queues) {
    for (const QueueId& to : queues) {
      if (from.rank != to.rank) ready.push_back(b.signal(from, to));
    }
  }
  for (const SignalId& signal : ready) b.wait(signal);
  for (int rank = 0; rank < 32; ++rank) b.reduce(queues[rank], {output_of(rank)}, slots, 0);
  const std::string svg = to_svg(verify(b.finish()));
  expect_well_formed(svg);
  EXPECT_EQ(count(svg, "class=\"bus\""), 1);
  EXPECT_EQ(count(svg, "<circle"), 32 + 1);                    // and the legend's
  EXPECT_EQ(count(svg, "marker-end=\"url(#data)\""), 32 + 2);  // and the legend's two
  EXPECT_NE(svg.find("from each above to each other below"), std::string::npos);
}

TEST(Picture, LargePlansAreAbbreviated) {
  const std::string svg = to_svg(verify(test::ring_all_reduce(80)));
  expect_well_formed(svg);
  EXPECT_NE(svg.find("ranks 64 to 79 are not drawn"), std::string::npos);
  EXPECT_NE(svg.find("more rows are not drawn"), std::string::npos);
  EXPECT_EQ(count(svg, "<title>"), kMaxPictureRanks * kMaxPictureRows);
  EXPECT_EQ(svg.find(">64<"), std::string::npos);
}

TEST(TextPicture, ARing) {
  EXPECT_EQ(to_text_picture(test::ring_all_reduce(3)),
            "zoo ring: all_reduce over 3 ranks\n"
            "step | rank 0                | rank 1                | rank 2\n"
            "-----+-----------------------+-----------------------+----------------------\n"
            "   0 | 0: in > r1.s0         | 1: in > r2.s0         | 2: in > r0.s0\n"
            "   1 | 2: s0+in > r1.s1      | 0: s0+in > r2.s1      | 1: s0+in > r0.s1\n"
            "   2 | 1: s1+in > r1.s2, out | 2: s1+in > r2.s2, out | 0: s1+in > r0.s2, out\n"
            "   3 | 0: s2 > r1.s3, out    | 1: s2 > r2.s3, out    | 2: s2 > r0.s3, out\n"
            "   4 | 2: s3 > out           | 0: s3 > out           | 1: s3 > out\n");
}

TEST(TextPicture, ABarrierShowsItsSignals) {
  EXPECT_EQ(to_text_picture(test::dissemination_barrier(2)),
            "zoo barrier: barrier over 2 ranks\n"
            "step | rank 0      | rank 1\n"
            "-----+-------------+------------\n"
            "   0 | signal r1   | signal r0\n"
            "     | wait for r1 | wait for r0\n");
}

TEST(Picture, SaysWhichChunkOfAnExchangeGoesWhere) {
  const std::string few = to_svg(verify(test::push_all_to_all(3, 1)));
  EXPECT_NE(few.find(">chunks 0 to 8; chunk 3 i + j: from rank i to rank j</text>"), std::string::npos);
  const std::string many = to_svg(verify(test::push_all_to_all(5, 1)));
  EXPECT_NE(many.find(">chunks 0 to 15 of 25; chunk 5 i + j: from rank i to rank j</text>"), std::string::npos);
  EXPECT_EQ(to_svg(verify(test::ring_all_reduce(3))).find("from rank"), std::string::npos);
}

TEST(TextPicture, AnExchangeSaysWhichChunkGoesWhere) {
  EXPECT_EQ(to_text_picture(test::push_all_to_all(2, 1)),
            "zoo exchange: all_to_all over 2 ranks\n"
            "chunk 2 i + j: from rank i to rank j\n"
            "step | rank 0        | rank 1\n"
            "-----+---------------+--------------\n"
            "   0 | 0: in > s0    | 2: in > r0.s1\n"
            "   1 | 1: in > r1.s0 | 3: in > s1\n"
            "   2 | 0: s0 > out   | 1: s0 > out\n"
            "   3 | 2: s1 > out   | 3: s1 > out\n");
}

TEST(TextPicture, MessagesAndSeveralQueues) {
  const std::string text = to_text_picture(test::two_node_all_reduce(1, 1));
  EXPECT_NE(text.find("0: h0 > net r1"), std::string::npos) << text;
  EXPECT_NE(text.find("0: net r0 > h1"), std::string::npos) << text;
  const std::string queues = to_text_picture(test::ring_all_reduce(2, 2));
  EXPECT_NE(
      queues.find("\n   0 | 0: in > r1.s0         | 1: in > r0.s0\n     | 2: in > r1.s2         | 3: in > r0.s2\n"),
      std::string::npos)
      << queues;
}

TEST(TextPicture, LargePlansAreAbbreviated) {
  const std::string text = to_text_picture(test::ring_all_reduce(64));
  EXPECT_NE(text.find("... and 47 more steps\n... and 56 more ranks\n"), std::string::npos) << text;
  EXPECT_LT(count(text, "\n"), kMaxTextPictureRows + 8);
}

TEST(TextPicture, DrawsPlansThatAreWrongButNotThoseThatStandStill) {
  Plan plan = test::ring_all_reduce(2);
  plan.ranks[0].queues[0].operations.erase(plan.ranks[0].queues[0].operations.begin());  // the first copy
  EXPECT_NO_THROW(to_text_picture(plan));
  Plan stuck = test::dissemination_barrier(2);
  for (RankPlan& rank : stuck.ranks) std::swap(rank.queues[0].operations[0], rank.queues[0].operations[1]);
  EXPECT_THROW(to_text_picture(stuck), Error);
}

TEST(Layout, RowsFollowTheLongestChain) {
  const PlanLayout ring = lay_out(test::ring_all_reduce(4));
  EXPECT_EQ(ring.rows, 7);
  EXPECT_EQ(ring.at({2, 0, 0}), 0);
  EXPECT_EQ(ring.at({2, 0, 1}), 1);  // the signal leaves below row 0
  EXPECT_EQ(ring.at({2, 0, 2}), 1);  // what arrives is there above row 1
  EXPECT_EQ(ring.at({2, 0, 3}), 1);
  const PlanLayout barrier = lay_out(test::dissemination_barrier(8));
  EXPECT_EQ(barrier.rows, 0);
  EXPECT_EQ(barrier.gaps, 3);
  const PlanLayout chain = lay_out(test::chain_broadcast(4, 0, 1));
  EXPECT_EQ(chain.at({0, 0, 0}), 0);
  EXPECT_EQ(chain.at({3, 0, 1}), 3);
}

}  // namespace
}  // namespace plait
