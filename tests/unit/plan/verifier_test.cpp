// The rules of the verifier on what moves when, from both sides: what keeps them passes, what breaks them is refused in
// words that say where.
#include "plan/verifier.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "plan/builder.hpp"
#include "property/plan_zoo.hpp"
#include "support/pair_plans.hpp"

namespace plait {
namespace {

using test::expect_refused;
using test::operation;
using test::pair_broadcast;
using test::two_ranks;

TEST(Verifier, AcceptsValidPlans) {
  for (const Plan& plan : test::zoo()) EXPECT_NO_THROW(verify(plan)) << plan.algorithm;
  EXPECT_NO_THROW(verify(pair_broadcast(3)));
}

TEST(Verifier, OneRankNeedsOnlyACopy) {
  PlanBuilder b({"alone", Collective::kAllReduce, 1});
  b.copy(b.add_queue(0, Engine::kCpu), output_of(0), input_of(0), 0);
  const VerifiedPlan plan = verify(b.finish());
  EXPECT_EQ(plan.report().steps, 0);
  EXPECT_TRUE(plan.report().synchronizes);
  EXPECT_TRUE(plan.report().traffic.empty());
  EXPECT_NO_THROW(verify(PlanBuilder({"alone", Collective::kBarrier, 1}).finish()));
  expect_refused(PlanBuilder({"alone", Collective::kAllReduce, 1}).finish(),
                 {"rank 0, chunk 0: its output was never written"});
}

// --- what the report tells ---

TEST(VerifierReport, StepsAndSynchronization) {
  EXPECT_EQ(verify(test::ring_all_reduce(4)).report().steps, 6);  // 2 (p - 1)
  EXPECT_TRUE(verify(test::ring_all_reduce(4)).report().synchronizes);
  EXPECT_EQ(verify(test::chain_broadcast(4, 0, 1)).report().steps, 3);
  EXPECT_FALSE(verify(test::chain_broadcast(4, 0, 1)).report().synchronizes);
  EXPECT_EQ(verify(test::dissemination_barrier(5)).report().steps, 3);
  EXPECT_EQ(verify(test::two_node_all_reduce(2, 1)).report().steps, 4);  // gather, two messages, hand out
}

TEST(VerifierReport, TrafficOfARing) {
  const PlanReport report = verify(test::ring_all_reduce(4)).report();
  ASSERT_EQ(report.traffic.size(), 4u);
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(report.traffic[r].from, (Endpoint{r, false}));
    EXPECT_EQ(report.traffic[r].to, (Endpoint{(r + 1) % 4, false}));
    EXPECT_EQ(report.traffic[r].chunks, 6);  // of 4: 2 (p - 1) / p messages
  }
  EXPECT_EQ(report.chunks_read[0], 6 + 3 + 1);     // each of 6 steps one, 3 reduces one more, the last copy
  EXPECT_EQ(report.chunks_written[0], 6 + 3 + 1);  // to the neighbour, 3 to the own output, the last copy
}

TEST(VerifierReport, TrafficOfCopyEnginesAndMessages) {
  // A copy engine of rank 1 that pulls from rank 0 into rank 2 moves nothing through rank 1.
  PlanBuilder b({"third", Collective::kBroadcast, 3, 0, 1, Access::kZeroCopy});
  const QueueId root = b.add_queue(0, Engine::kCpu), copy = b.add_queue(1, Engine::kCopy),
                last = b.add_queue(2, Engine::kCpu);
  b.copy(root, output_of(0), input_of(0), 0);
  b.wait(b.signal(root, copy));
  b.wait(b.signal(last, copy));
  b.copy(copy, output_of(2), input_of(0), 0);
  b.copy(copy, output_of(1), input_of(0), 0);
  b.wait(b.signal(copy, root));
  b.wait(b.signal(copy, last));
  const PlanReport report = verify(b.finish()).report();
  ASSERT_EQ(report.traffic.size(), 2u);
  EXPECT_EQ(report.traffic[0].to, (Endpoint{1, false}));
  EXPECT_EQ(report.traffic[1].from, (Endpoint{0, false}));
  EXPECT_EQ(report.traffic[1].to, (Endpoint{2, false}));

  const PlanReport nodes = verify(test::two_node_all_reduce(2, 3)).report();
  int64_t between = 0;
  for (const Traffic& t : nodes.traffic) {
    EXPECT_NE(t.from, t.to);
    if (t.from.rank / 2 != t.to.rank / 2) {
      EXPECT_TRUE(t.from.host && t.to.host);
      between += t.chunks;
    }
  }
  EXPECT_EQ(between, 6);
}

TEST(VerifierReport, TrafficOfACpuQueueNextToAGpu) {
  const auto copied = [](bool gpu) {
    return verify(two_ranks(Collective::kBroadcast,
                            [&](PlanBuilder& b, QueueId queue0, QueueId queue1) {
                              const Place here = b.take_host(0), there = b.take_host(1);
                              if (gpu) b.add_queue(0, Engine::kSm);
                              b.reduce(queue0, {output_of(0), here}, {input_of(0)}, 0);
                              b.copy(queue0, there, here, 0);
                              b.wait(b.signal(queue0, queue1));
                              b.copy(queue1, output_of(1), there, 0);
                            }))
        .report()
        .traffic;
  };
  const Endpoint host0{0, true}, host1{1, true}, own0{0, false}, own1{1, false};
  const auto has = [](const std::vector<Traffic>& all, const Endpoint& from, const Endpoint& to) {
    return std::count_if(all.begin(), all.end(), [&](const Traffic& t) { return t.from == from && t.to == to; }) == 1;
  };
  // On a rank without a GPU its own memory is where the queue works.
  EXPECT_TRUE(has(copied(false), own0, host0) && has(copied(false), host0, own0) && has(copied(false), own0, host1));
  // Next to a GPU it works from the host: from there straight to the other host, and the GPU's memory is a crossing
  // away.
  EXPECT_TRUE(has(copied(true), host0, host1) && has(copied(true), own0, host0) && has(copied(true), host0, own0));
  EXPECT_EQ(copied(true).size(), 4u);
  EXPECT_TRUE(has(copied(true), host1, own1));
}

TEST(VerifierReport, FactsForLowering) {
  const PlanReport report = verify(test::ring_all_reduce(4)).report();
  const auto& facts = report.facts[0][0];  // copy, signal, wait, reduce, signal, …
  EXPECT_EQ(facts[0], (ReduceFacts{{0}, false, false}));
  EXPECT_EQ(facts[1], ReduceFacts{});
  EXPECT_EQ(facts[3], (ReduceFacts{{0, 0}, true, false}));
  EXPECT_EQ(facts[6], (ReduceFacts{{1, 0}, true, false}));
  EXPECT_EQ(facts[9], (ReduceFacts{{1, 0}, false, true}));  // the last contribution
  EXPECT_EQ(facts[12], (ReduceFacts{{0}, false, false}));   // what is finished is only passed on
}

// A broadcast of one chunk from rank 0 to rank 1 by way of a slot of rank 1.
struct BroadcastBySlot {
  PlanBuilder b{{"by slot", Collective::kBroadcast, 2}};
  QueueId from = b.add_queue(0, Engine::kCpu), to = b.add_queue(1, Engine::kCpu);
  Place slot = b.take_scratch(1), other = b.take_scratch(1), of_root = b.take_scratch(0);

  // `more`: where the root stores besides, `times` it stores there.
  std::optional<OperationId> unread(const std::vector<Place>& more = {}, int times = 1) {
    for (int time = 0; time < times; ++time) {
      std::vector<Place> all = {output_of(0), slot};
      all.insert(all.end(), more.begin(), more.end());
      b.reduce(from, all, {input_of(0)}, 0);
    }
    b.wait(b.signal(from, to));
    b.copy(to, output_of(1), slot, 0);
    return verify(b.finish()).report().unread_store;
  }
};

TEST(VerifierReport, StoresAtOtherRanksThatNobodyReads) {
  BroadcastBySlot read, own, left, overwritten;
  EXPECT_EQ(read.unread(), std::nullopt);
  EXPECT_EQ(own.unread({own.of_root}), std::nullopt);
  EXPECT_EQ(left.unread({left.other}), (OperationId{0, 0, 0}));
  EXPECT_EQ(overwritten.unread({}, 2), (OperationId{0, 0, 0}));
}

// --- every output chunk ends with exactly the contributions, each once, in one order ---

TEST(VerifierResult, EveryContributionOnce) {
  Plan lost = test::one_shot_all_reduce(3);
  auto& last = lost.ranks[1].queues[0].operations.back();
  last.sources.erase(last.sources.begin() + 2);
  // Two of three: an unfinished reduction that went to the output.
  expect_refused(lost, {"rank 1, queue 0 (sm), operation 5", "unfinished reduction of chunk 0 (2 of 3 ranks)"});

  Plan only_one = test::one_shot_all_reduce(3);
  only_one.ranks[1].queues[0].operations.back().sources.resize(1);
  expect_refused(only_one, {"rank 1, chunk 0: its output, last written by rank 1 queue 0 operation 5, lacks the "
                            "contribution of rank 1"});

  Plan twice = test::one_shot_all_reduce(3);
  twice.ranks[2].queues[0].operations.back().sources[1] = {2, Buffer::kScratch, 0};
  expect_refused(twice, {"rank 2, queue 0 (sm), operation 5", "adds the contribution of rank 0 to chunk 0 twice",
                         "again from r2.scratch[0]"});
}

TEST(VerifierResult, TheSameOrderOnAllRanks) {
  Plan plan = test::one_shot_all_reduce(3);
  auto& sources = plan.ranks[2].queues[0].operations.back().sources;
  std::swap(sources[0], sources[1]);
  expect_refused(plan, {"rank 2, chunk 0: its output, last written by rank 2 queue 0 operation 5",
                        "combined in another "
                        "order than that of rank 0 (by rank 0 queue 0 operation 5)"});
  for (RankPlan& rank : plan.ranks) {
    auto& all = rank.queues[0].operations.back().sources;
    if (&rank != &plan.ranks[2]) std::swap(all[0], all[1]);
  }
  EXPECT_NO_THROW(verify(plan));
}

TEST(VerifierResult, TheRightChunk) {
  expect_refused(two_ranks(
                     Collective::kBroadcast,
                     [](PlanBuilder& b, QueueId queue0, QueueId queue1) {
                       const Place scratch = b.take_scratch(1, 2);
                       b.copy(queue0, output_of(0), input_of(0), 0, 2);
                       b.copy(queue0, slot_after(scratch, 1), input_of(0), 0);
                       b.copy(queue0, scratch, input_of(0), 1);
                       b.wait(b.signal(queue0, queue1));
                       b.copy(queue1, output_of(1), scratch, 0, 2);
                     },
                     2),
                 {"rank 1, queue 0 (cpu), operation 1", "takes r1.scratch[0] for chunk 0, but it holds chunk 1"});
}

TEST(VerifierResult, ChunksOfOneOperationAreAtOneStage) {
  PlanBuilder b({"mixed", Collective::kAllReduce, 3, 0, 2});
  const QueueId queue = b.add_queue(0, Engine::kCpu), other = b.add_queue(1, Engine::kCpu);
  const Place theirs = b.take_scratch(0, 2), mine = b.take_scratch(0, 2);
  b.copy(other, theirs, input_of(1), 0, 2);
  b.wait(b.signal(other, queue));
  b.reduce(queue, {mine}, {input_of(0), theirs}, 0);
  b.copy(queue, slot_after(mine, 1), input_of(0), 1);
  b.copy(queue, b.take_scratch(0, 2), mine, 0, 2);
  expect_refused(b.finish(), {"rank 0, queue 0 (cpu), operation 3",
                              "chunk 1 is at another stage of its reduction than chunk 0; split the operation"});
}

// --- nothing is read before it was written, or written while it may be read ---

TEST(VerifierMemory, ReadBeforeWrite) {
  expect_refused(two_ranks(Collective::kBroadcast, [](PlanBuilder& b, QueueId queue0,
                                                      QueueId) { b.copy(queue0, output_of(0), b.take_scratch(0), 0); }),
                 {"operation 0", "reads chunk 0 from r0.scratch[0] before anything was written there"});
}

TEST(VerifierMemory, ReadWithoutASignal) {
  Plan plan = pair_broadcast(2);
  auto& operations = plan.ranks[1].queues[0].operations;
  std::swap(operations[0], operations[1]);
  expect_refused(plan,
                 {"rank 1, queue 0 (cpu), operation 0",
                  "reads chunk 0 from r1.scratch[0] without having heard of the write by rank 0 queue 0 operation 0"});
}

TEST(VerifierMemory, WriteWithoutHavingHeardOfAWrite) {
  Plan plan = pair_broadcast();
  plan.ranks[1].queues[0].operations.insert(plan.ranks[1].queues[0].operations.begin(), operation(plan, 0, 0, 0));
  operation(plan, 1, 0, 0).destinations = {{1, Buffer::kScratch, 0}};
  operation(plan, 1, 0, 0).sources = {{1, Buffer::kScratch, 0}};
  // Rank 1 copies the slot to itself: it reads first.
  expect_refused(plan, {"rank 1, queue 0 (cpu), operation 0", "without having heard of the write"});

  expect_refused(
      two_ranks(Collective::kAllReduce,
                [](PlanBuilder& b, QueueId queue0, QueueId queue1) {
                  const Place slot = b.take_scratch(0);
                  b.copy(queue0, slot, input_of(0), 0);
                  b.copy(queue1, slot, input_of(1), 0);
                }),
      {"rank 1, queue 0 (cpu), operation 0",
       "writes chunk 0 to r0.scratch[0] without having heard of the earlier write by rank 0 queue 0 operation 0"});
}

TEST(VerifierMemory, WriteWhileItMayBeRead) {
  // A slot is used again without word that its reader is done.
  expect_refused(two_ranks(
                     Collective::kBroadcast,
                     [](PlanBuilder& b, QueueId queue0, QueueId queue1) {
                       const Place scratch = b.take_scratch(1);
                       for (int chunk = 0; chunk < 2; ++chunk) {
                         b.reduce(queue0, {output_of(0), scratch}, {input_of(0)}, chunk);
                         b.wait(b.signal(queue0, queue1));
                         b.copy(queue1, output_of(1), scratch, chunk);
                       }
                     },
                     2),
                 {"rank 1, queue 0 (cpu), operation 1",
                  "reads chunk 0 from r1.scratch[0] without having heard of the write by "
                  "rank 0 queue 0 operation 2"});
  expect_refused(two_ranks(Collective::kAllReduce,
                           [](PlanBuilder& b, QueueId queue0, QueueId queue1) {
                             const Place slot = b.take_scratch(1), copy = b.take_scratch(1);
                             b.copy(queue1, slot, input_of(1), 0);
                             b.wait(b.signal(queue1, queue0));
                             b.copy(queue1, copy, slot, 0);
                             b.copy(queue0, slot, input_of(0), 0);
                           }),
                 {"may still read it"});
}

TEST(VerifierMemory, CallersBuffersBeforeTheCall) {
  expect_refused(two_ranks(Collective::kBroadcast,
                           [](PlanBuilder& b, QueueId queue0, QueueId queue1) {
                             b.copy(queue0, output_of(0), input_of(0), 0);
                             b.copy(queue0, output_of(1), input_of(0), 0);
                             b.wait(b.signal(queue0, queue1));
                           }),
                 {"rank 0, queue 0 (cpu), operation 1",
                  "writes chunk 0 to r1.output without having heard of the call by the caller "
                  "of rank 1"});
  expect_refused(two_ranks(Collective::kBroadcast,
                           [](PlanBuilder& b, QueueId queue0, QueueId queue1) {
                             b.copy(queue0, output_of(0), input_of(0), 0);
                             b.copy(queue1, output_of(1), input_of(0), 0);
                             b.wait(b.signal(queue1, queue0));
                           }),
                 {"rank 1, queue 0 (cpu), operation 0",
                  "reads chunk 0 from r0.input without having heard of the call by the caller "
                  "of rank 0"});
}

TEST(VerifierMemory, CallersBuffersAfterTheReturn) {
  expect_refused(two_ranks(Collective::kBroadcast,
                           [](PlanBuilder& b, QueueId queue0, QueueId queue1) {
                             b.copy(queue0, output_of(0), input_of(0), 0);
                             b.wait(b.signal(queue0, queue1));
                             b.copy(queue1, output_of(1), input_of(0), 0);
                           }),
                 {"rank 1, queue 0 (cpu), operation 1", "rank 0 may return before this reads chunk 0 of its input"});
  expect_refused(two_ranks(Collective::kBroadcast,
                           [](PlanBuilder& b, QueueId queue0, QueueId queue1) {
                             b.wait(b.signal(queue1, queue0));
                             b.reduce(queue0, {output_of(0), output_of(1)}, {input_of(0)}, 0);
                           }),
                 {"rank 0, queue 0 (cpu), operation 1", "rank 1 may return before this writes chunk 0 of its output"});
}

// --- every wait is met ---

TEST(VerifierSignals, NeverSentNeverAwaited) {
  Plan plan = pair_broadcast();
  plan.ranks[0].queues[0].operations.pop_back();
  expect_refused(plan, {"rank 1, queue 0 (cpu), operation 0", "waits for ever: signal 0 of rank 1 is never sent"});
  plan = pair_broadcast();
  plan.ranks[1].queues[0].operations.erase(plan.ranks[1].queues[0].operations.begin());
  expect_refused(plan, {"rank 0, queue 0 (cpu), operation 1", "signal 0 of rank 1 is never awaited"});
  plan = pair_broadcast();
  plan.ranks[1].signals = 2;
  expect_refused(plan, {"signal 1 of rank 1 is counted but neither sent nor awaited"});
}

TEST(VerifierSignals, SentOrAwaitedTwice) {
  Plan plan = pair_broadcast();
  plan.ranks[0].queues[0].operations.push_back(operation(plan, 0, 0, 1));
  expect_refused(plan, {"rank 0, queue 0 (cpu), operation 2",
                        "signal 0 of rank 1 is already sent by rank 0 queue 0 "
                        "operation 1"});
  plan = pair_broadcast();
  plan.ranks[1].queues[0].operations.push_back(operation(plan, 1, 0, 0));
  expect_refused(plan, {"rank 1, queue 0 (cpu), operation 2", "already awaited by rank 1 queue 0 operation 0"});
}

TEST(VerifierSignals, BothEndsNameEachOther) {
  PlanBuilder b({"x", Collective::kBarrier, 2});
  const QueueId queue0 = b.add_queue(0, Engine::kCpu), queue1 = b.add_queue(1, Engine::kCpu);
  b.add_queue(0, Engine::kCpu);
  b.add_queue(1, Engine::kCpu);
  test::meet(b, {queue0, queue1});
  const Plan good = b.finish();
  EXPECT_NO_THROW(verify(good));
  Plan plan = good;
  operation(plan, 0, 0, 0).peer_queue = 1;
  expect_refused(plan, {"rank 0, queue 0 (cpu), operation 0",
                        "is for queue 1 of rank 1, but rank 1 queue 0 operation 1 "
                        "awaits it"});
  plan = good;
  operation(plan, 1, 0, 1).peer_queue = 1;
  expect_refused(plan, {"rank 1, queue 0 (cpu), operation 1",
                        "comes from rank 0 queue 0 operation 0, not from rank 0 "
                        "queue 1"});
}

TEST(VerifierSignals, CirclesOfWaits) {
  Plan plan = test::dissemination_barrier(2);  // each: signal, wait
  for (RankPlan& rank : plan.ranks) std::swap(rank.queues[0].operations[0], rank.queues[0].operations[1]);
  expect_refused(plan, {"rank 0, queue 0 (cpu), operation 0",
                        "waits for ever: what it waits for comes from rank 1 queue 0 "
                        "operation 1, whose queue waits for ever at `wait 0 from r0 queue 0`, operation 0"});

  PlanBuilder b({"self", Collective::kBarrier, 1});
  const QueueId queue = b.add_queue(0, Engine::kCpu);
  b.wait(b.signal(queue, queue));
  plan = b.finish();
  EXPECT_NO_THROW(verify(plan));
  std::swap(plan.ranks[0].queues[0].operations[0], plan.ranks[0].queues[0].operations[1]);
  expect_refused(plan, {"rank 0, queue 0 (cpu), operation 0", "comes only later, from rank 0 queue 0 operation 1"});
}

TEST(VerifierSignals, MessagesMatch) {
  const Plan good = test::two_node_all_reduce(2, 2);
  const auto receive_of = [](Plan& plan) -> Operation& {
    for (Operation& o : plan.ranks[0].queues[1].operations) {
      if (o.kind == OpKind::kReceive) return o;
    }
    throw std::logic_error("no receive");
  };
  Plan plan = good;
  receive_of(plan).chunks = 1;
  expect_refused(plan, {"rank 0, queue 1 (net), operation", "carries 2 chunks from chunk 0 on, not 1 from chunk 0 on"});
  plan = good;
  receive_of(plan).number = 1;
  expect_refused(plan, {"message 1 is not one of the 1 that rank 0 counts"});
  plan = good;
  plan.ranks[0].messages = 0;
  expect_refused(plan, {"message 0 is not one of the 0 that rank 0 counts"});
}

TEST(VerifierSignals, ABarrierHoldsEverybody) {
  EXPECT_NO_THROW(verify(test::dissemination_barrier(7)));
  expect_refused(two_ranks(Collective::kBarrier,
                           [](PlanBuilder& b, QueueId queue0, QueueId queue1) { b.wait(b.signal(queue0, queue1)); }),
                 {"rank 0 may leave the barrier before rank 1 has come"});
}

}  // namespace
}  // namespace plait
