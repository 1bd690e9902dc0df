// Every rule of the verifier, from both sides: what keeps it passes, what breaks it is refused in words that say where.
#include "plan/verifier.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "plan/builder.hpp"
#include "plan/conditions.hpp"
#include "property/plan_zoo.hpp"

namespace plait {
namespace {

void expect_refused(Plan plan, const std::vector<std::string>& words) {
  try {
    verify(std::move(plan));
    FAIL() << "accepted, although: " << words.at(0);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
    for (const std::string& word : words) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what() << "\nlacks: " << word;
    }
  }
}

Operation& operation(Plan& plan, int rank, int lane, int index) {
  return plan.ranks[rank].lanes[lane].operations[index];
}

// Two ranks in peer reach; the body fills the lanes.
Plan two_ranks(Collective collective, const std::function<void(PlanBuilder&, LaneId, LaneId)>& body, int chunks = 1,
               Reach reach = Reach::kPeer) {
  PlanBuilder b({"pair", collective, 2, 0, chunks, reach});
  const LaneId lane0 = b.add_lane(0, Engine::kCpu), lane1 = b.add_lane(1, Engine::kCpu);
  body(b, lane0, lane1);
  return b.finish();
}

// Rank 0 hands its input to rank 1 through rank 1's scratch.
Plan pair_broadcast(int chunks = 1) {
  return two_ranks(
      Collective::kBroadcast,
      [&](PlanBuilder& b, LaneId lane0, LaneId lane1) {
        const Place scratch = b.take_scratch(1, chunks);
        b.fold(lane0, {output_of(0), scratch}, {input_of(0)}, 0, chunks);  // rank 0, operation 0
        b.wait(b.signal(lane0, lane1));                                    // rank 0, operation 1; rank 1, operation 0
        b.copy(lane1, output_of(1), scratch, 0, chunks);                   // rank 1, operation 1
      },
      chunks, Reach::kStaged);
}

TEST(Verifier, AcceptsValidPlans) {
  for (const Plan& plan : test::zoo()) EXPECT_NO_THROW(verify(plan)) << plan.algorithm;
  EXPECT_NO_THROW(verify(pair_broadcast(3)));
}

TEST(Verifier, OneRankNeedsOnlyACopy) {
  PlanBuilder b({"alone", Collective::kAllReduce, 1});
  b.copy(b.add_lane(0, Engine::kCpu), output_of(0), input_of(0), 0);
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
  EXPECT_EQ(report.chunks_read[0], 6 + 3 + 1);     // each of 6 steps one, 3 folds one more, the last copy
  EXPECT_EQ(report.chunks_written[0], 6 + 3 + 1);  // to the neighbour, 3 to the own output, the last copy
}

TEST(VerifierReport, TrafficOfCopyEnginesAndMessages) {
  // A copy engine of rank 1 that pulls from rank 0 into rank 2 moves nothing through rank 1.
  PlanBuilder b({"third", Collective::kBroadcast, 3, 0, 1, Reach::kPeer});
  const LaneId root = b.add_lane(0, Engine::kCpu), copy = b.add_lane(1, Engine::kCopy),
               last = b.add_lane(2, Engine::kCpu);
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

TEST(VerifierReport, TrafficOfACpuLaneNextToAGpu) {
  const auto copied = [](bool gpu) {
    return verify(two_ranks(Collective::kBroadcast,
                            [&](PlanBuilder& b, LaneId lane0, LaneId lane1) {
                              const Place here = b.take_host(0), there = b.take_host(1);
                              if (gpu) b.add_lane(0, Engine::kSm);
                              b.fold(lane0, {output_of(0), here}, {input_of(0)}, 0);
                              b.copy(lane0, there, here, 0);
                              b.wait(b.signal(lane0, lane1));
                              b.copy(lane1, output_of(1), there, 0);
                            }))
        .report()
        .traffic;
  };
  const Endpoint host0{0, true}, host1{1, true}, own0{0, false}, own1{1, false};
  const auto has = [](const std::vector<Traffic>& all, const Endpoint& from, const Endpoint& to) {
    return std::count_if(all.begin(), all.end(), [&](const Traffic& t) { return t.from == from && t.to == to; }) == 1;
  };
  // On a rank without a GPU its own memory is where the lane works.
  EXPECT_TRUE(has(copied(false), own0, host0) && has(copied(false), host0, own0) && has(copied(false), own0, host1));
  // Next to a GPU it works from the host: from there straight to the other host, and the GPU's memory is a crossing
  // away.
  EXPECT_TRUE(has(copied(true), host0, host1) && has(copied(true), own0, host0) && has(copied(true), host0, own0));
  EXPECT_EQ(copied(true).size(), 4u);
  EXPECT_TRUE(has(copied(true), host1, own1));
}

TEST(VerifierReport, FactsForLowering) {
  const PlanReport report = verify(test::ring_all_reduce(4)).report();
  const auto& facts = report.facts[0][0];  // copy, signal, wait, fold, signal, …
  EXPECT_EQ(facts[0], (FoldFacts{{0}, false, false}));
  EXPECT_EQ(facts[1], FoldFacts{});
  EXPECT_EQ(facts[3], (FoldFacts{{0, 0}, true, false}));
  EXPECT_EQ(facts[6], (FoldFacts{{1, 0}, true, false}));
  EXPECT_EQ(facts[9], (FoldFacts{{1, 0}, false, true}));  // the last contribution
  EXPECT_EQ(facts[12], (FoldFacts{{0}, false, false}));   // what is finished is only passed on
}

// --- every output chunk ends with exactly the contributions, each once, in one order ---

TEST(VerifierResult, EveryContributionOnce) {
  Plan lost = test::one_shot_all_reduce(3);
  auto& last = lost.ranks[1].lanes[0].operations.back();
  last.sources.erase(last.sources.begin() + 2);
  // Two of three: an unfinished reduction that went to the output.
  expect_refused(lost, {"rank 1, lane 0 (sm), operation 5", "unfinished reduction of chunk 0 (2 of 3 ranks)"});

  Plan only_one = test::one_shot_all_reduce(3);
  only_one.ranks[1].lanes[0].operations.back().sources.resize(1);
  expect_refused(only_one, {"rank 1, chunk 0: its output, last written by rank 1 lane 0 operation 5, lacks the "
                            "contribution of rank 1"});

  Plan twice = test::one_shot_all_reduce(3);
  twice.ranks[2].lanes[0].operations.back().sources[1] = {2, Buffer::kScratch, 0};
  expect_refused(twice, {"rank 2, lane 0 (sm), operation 5", "adds the contribution of rank 0 to chunk 0 twice",
                         "again from r2.scratch[0]"});
}

TEST(VerifierResult, TheSameOrderOnAllRanks) {
  Plan plan = test::one_shot_all_reduce(3);
  auto& sources = plan.ranks[2].lanes[0].operations.back().sources;
  std::swap(sources[0], sources[1]);
  expect_refused(plan, {"rank 2, chunk 0: its output, last written by rank 2 lane 0 operation 5",
                        "combined in another "
                        "order than that of rank 0 (by rank 0 lane 0 operation 5)"});
  for (RankPlan& rank : plan.ranks) {
    auto& all = rank.lanes[0].operations.back().sources;
    if (&rank != &plan.ranks[2]) std::swap(all[0], all[1]);
  }
  EXPECT_NO_THROW(verify(plan));
}

TEST(VerifierResult, TheRightChunk) {
  expect_refused(two_ranks(
                     Collective::kBroadcast,
                     [](PlanBuilder& b, LaneId lane0, LaneId lane1) {
                       const Place scratch = b.take_scratch(1, 2);
                       b.copy(lane0, output_of(0), input_of(0), 0, 2);
                       b.copy(lane0, slot_after(scratch, 1), input_of(0), 0);
                       b.copy(lane0, scratch, input_of(0), 1);
                       b.wait(b.signal(lane0, lane1));
                       b.copy(lane1, output_of(1), scratch, 0, 2);
                     },
                     2),
                 {"rank 1, lane 0 (cpu), operation 1", "takes r1.scratch[0] for chunk 0, but it holds chunk 1"});
}

TEST(VerifierResult, ChunksOfOneOperationAreAtOneStage) {
  PlanBuilder b({"mixed", Collective::kAllReduce, 3, 0, 2});
  const LaneId lane = b.add_lane(0, Engine::kCpu), other = b.add_lane(1, Engine::kCpu);
  const Place theirs = b.take_scratch(0, 2), mine = b.take_scratch(0, 2);
  b.copy(other, theirs, input_of(1), 0, 2);
  b.wait(b.signal(other, lane));
  b.fold(lane, {mine}, {input_of(0), theirs}, 0);
  b.copy(lane, slot_after(mine, 1), input_of(0), 1);
  b.copy(lane, b.take_scratch(0, 2), mine, 0, 2);
  expect_refused(b.finish(), {"rank 0, lane 0 (cpu), operation 3",
                              "chunk 1 is at another stage of its reduction than chunk 0; split the operation"});
}

// --- nothing is read before it was written, or written while it may be read ---

TEST(VerifierMemory, ReadBeforeWrite) {
  expect_refused(two_ranks(Collective::kBroadcast, [](PlanBuilder& b, LaneId lane0,
                                                      LaneId) { b.copy(lane0, output_of(0), b.take_scratch(0), 0); }),
                 {"operation 0", "reads chunk 0 from r0.scratch[0] before anything was written there"});
}

TEST(VerifierMemory, ReadWithoutASignal) {
  Plan plan = pair_broadcast(2);
  auto& operations = plan.ranks[1].lanes[0].operations;
  std::swap(operations[0], operations[1]);
  expect_refused(plan,
                 {"rank 1, lane 0 (cpu), operation 0",
                  "reads chunk 0 from r1.scratch[0] without having heard of the write by rank 0 lane 0 operation 0"});
}

TEST(VerifierMemory, WriteWithoutHavingHeardOfAWrite) {
  Plan plan = pair_broadcast();
  plan.ranks[1].lanes[0].operations.insert(plan.ranks[1].lanes[0].operations.begin(), operation(plan, 0, 0, 0));
  operation(plan, 1, 0, 0).destinations = {{1, Buffer::kScratch, 0}};
  operation(plan, 1, 0, 0).sources = {{1, Buffer::kScratch, 0}};
  // Rank 1 copies the slot to itself: it reads first.
  expect_refused(plan, {"rank 1, lane 0 (cpu), operation 0", "without having heard of the write"});

  expect_refused(
      two_ranks(Collective::kAllReduce,
                [](PlanBuilder& b, LaneId lane0, LaneId lane1) {
                  const Place slot = b.take_scratch(0);
                  b.copy(lane0, slot, input_of(0), 0);
                  b.copy(lane1, slot, input_of(1), 0);
                }),
      {"rank 1, lane 0 (cpu), operation 0",
       "writes chunk 0 to r0.scratch[0] without having heard of the earlier write by rank 0 lane 0 operation 0"});
}

TEST(VerifierMemory, WriteWhileItMayBeRead) {
  // A slot is used again without word that its reader is done.
  expect_refused(two_ranks(
                     Collective::kBroadcast,
                     [](PlanBuilder& b, LaneId lane0, LaneId lane1) {
                       const Place scratch = b.take_scratch(1);
                       for (int chunk = 0; chunk < 2; ++chunk) {
                         b.fold(lane0, {output_of(0), scratch}, {input_of(0)}, chunk);
                         b.wait(b.signal(lane0, lane1));
                         b.copy(lane1, output_of(1), scratch, chunk);
                       }
                     },
                     2),
                 {"rank 1, lane 0 (cpu), operation 1",
                  "reads chunk 0 from r1.scratch[0] without having heard of the write by "
                  "rank 0 lane 0 operation 2"});
  expect_refused(two_ranks(Collective::kAllReduce,
                           [](PlanBuilder& b, LaneId lane0, LaneId lane1) {
                             const Place slot = b.take_scratch(1), copy = b.take_scratch(1);
                             b.copy(lane1, slot, input_of(1), 0);
                             b.wait(b.signal(lane1, lane0));
                             b.copy(lane1, copy, slot, 0);
                             b.copy(lane0, slot, input_of(0), 0);
                           }),
                 {"may still read it"});
}

TEST(VerifierMemory, CallersBuffersBeforeTheCall) {
  expect_refused(two_ranks(Collective::kBroadcast,
                           [](PlanBuilder& b, LaneId lane0, LaneId lane1) {
                             b.copy(lane0, output_of(0), input_of(0), 0);
                             b.copy(lane0, output_of(1), input_of(0), 0);
                             b.wait(b.signal(lane0, lane1));
                           }),
                 {"rank 0, lane 0 (cpu), operation 1",
                  "writes chunk 0 to r1.output without having heard of the call by the caller "
                  "of rank 1"});
  expect_refused(two_ranks(Collective::kBroadcast,
                           [](PlanBuilder& b, LaneId lane0, LaneId lane1) {
                             b.copy(lane0, output_of(0), input_of(0), 0);
                             b.copy(lane1, output_of(1), input_of(0), 0);
                             b.wait(b.signal(lane1, lane0));
                           }),
                 {"rank 1, lane 0 (cpu), operation 0",
                  "reads chunk 0 from r0.input without having heard of the call by the caller "
                  "of rank 0"});
}

TEST(VerifierMemory, CallersBuffersAfterTheReturn) {
  expect_refused(two_ranks(Collective::kBroadcast,
                           [](PlanBuilder& b, LaneId lane0, LaneId lane1) {
                             b.copy(lane0, output_of(0), input_of(0), 0);
                             b.wait(b.signal(lane0, lane1));
                             b.copy(lane1, output_of(1), input_of(0), 0);
                           }),
                 {"rank 1, lane 0 (cpu), operation 1", "rank 0 may return before this reads chunk 0 of its input"});
  expect_refused(two_ranks(Collective::kBroadcast,
                           [](PlanBuilder& b, LaneId lane0, LaneId lane1) {
                             b.wait(b.signal(lane1, lane0));
                             b.fold(lane0, {output_of(0), output_of(1)}, {input_of(0)}, 0);
                           }),
                 {"rank 0, lane 0 (cpu), operation 1", "rank 1 may return before this writes chunk 0 of its output"});
}

// --- every wait is met ---

TEST(VerifierSignals, NeverSentNeverAwaited) {
  Plan plan = pair_broadcast();
  plan.ranks[0].lanes[0].operations.pop_back();
  expect_refused(plan, {"rank 1, lane 0 (cpu), operation 0", "waits for ever: signal 0 of rank 1 is never sent"});
  plan = pair_broadcast();
  plan.ranks[1].lanes[0].operations.erase(plan.ranks[1].lanes[0].operations.begin());
  expect_refused(plan, {"rank 0, lane 0 (cpu), operation 1", "signal 0 of rank 1 is never awaited"});
  plan = pair_broadcast();
  plan.ranks[1].signals = 2;
  expect_refused(plan, {"signal 1 of rank 1 is counted but neither sent nor awaited"});
}

TEST(VerifierSignals, SentOrAwaitedTwice) {
  Plan plan = pair_broadcast();
  plan.ranks[0].lanes[0].operations.push_back(operation(plan, 0, 0, 1));
  expect_refused(plan, {"rank 0, lane 0 (cpu), operation 2",
                        "signal 0 of rank 1 is already sent by rank 0 lane 0 "
                        "operation 1"});
  plan = pair_broadcast();
  plan.ranks[1].lanes[0].operations.push_back(operation(plan, 1, 0, 0));
  expect_refused(plan, {"rank 1, lane 0 (cpu), operation 2", "already awaited by rank 1 lane 0 operation 0"});
}

TEST(VerifierSignals, BothEndsNameEachOther) {
  PlanBuilder b({"x", Collective::kBarrier, 2});
  const LaneId lane0 = b.add_lane(0, Engine::kCpu), lane1 = b.add_lane(1, Engine::kCpu);
  b.add_lane(0, Engine::kCpu);
  b.add_lane(1, Engine::kCpu);
  test::meet(b, {lane0, lane1});
  const Plan good = b.finish();
  EXPECT_NO_THROW(verify(good));
  Plan plan = good;
  operation(plan, 0, 0, 0).peer_lane = 1;
  expect_refused(plan, {"rank 0, lane 0 (cpu), operation 0",
                        "is for lane 1 of rank 1, but rank 1 lane 0 operation 1 "
                        "awaits it"});
  plan = good;
  operation(plan, 1, 0, 1).peer_lane = 1;
  expect_refused(plan, {"rank 1, lane 0 (cpu), operation 1",
                        "comes from rank 0 lane 0 operation 0, not from rank 0 "
                        "lane 1"});
}

TEST(VerifierSignals, CirclesOfWaits) {
  Plan plan = test::dissemination_barrier(2);  // each: signal, wait
  for (RankPlan& rank : plan.ranks) std::swap(rank.lanes[0].operations[0], rank.lanes[0].operations[1]);
  expect_refused(plan, {"rank 0, lane 0 (cpu), operation 0",
                        "waits for ever: what it waits for comes from rank 1 lane 0 "
                        "operation 1, whose lane waits for ever at `wait 0 from r0 lane 0`, operation 0"});

  PlanBuilder b({"self", Collective::kBarrier, 1});
  const LaneId lane = b.add_lane(0, Engine::kCpu);
  b.wait(b.signal(lane, lane));
  plan = b.finish();
  EXPECT_NO_THROW(verify(plan));
  std::swap(plan.ranks[0].lanes[0].operations[0], plan.ranks[0].lanes[0].operations[1]);
  expect_refused(plan, {"rank 0, lane 0 (cpu), operation 0", "comes only later, from rank 0 lane 0 operation 1"});
}

TEST(VerifierSignals, MessagesMatch) {
  const Plan good = test::two_node_all_reduce(2, 2);
  const auto receive_of = [](Plan& plan) -> Operation& {
    for (Operation& o : plan.ranks[0].lanes[1].operations) {
      if (o.kind == OpKind::kReceive) return o;
    }
    throw std::logic_error("no receive");
  };
  Plan plan = good;
  receive_of(plan).chunks = 1;
  expect_refused(plan, {"rank 0, lane 1 (net), operation", "carries 2 chunks from chunk 0 on, not 1 from chunk 0 on"});
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
                           [](PlanBuilder& b, LaneId lane0, LaneId lane1) { b.wait(b.signal(lane0, lane1)); }),
                 {"rank 0 may leave the barrier before rank 1 has come"});
}

// --- bounds and reach ---

TEST(VerifierBounds, PlacesExist) {
  Plan plan = pair_broadcast();
  operation(plan, 0, 0, 0).destinations[1].rank = 2;
  expect_refused(plan, {"rank 0, lane 0 (cpu), operation 0", "rank 2 of r2.scratch[0] does not exist"});
  plan = pair_broadcast();
  operation(plan, 0, 0, 0).chunk = 1;
  expect_refused(plan, {"operation 0", "chunks 1..1 are not within the 1 chunks of the message"});
  plan = pair_broadcast();
  operation(plan, 0, 0, 0).chunks = 0;
  expect_refused(plan, {"covers 0 chunks; at least one is needed"});
  plan = pair_broadcast(2);
  operation(plan, 0, 0, 0).destinations[1].slot = 1;
  expect_refused(plan, {"slots 1..2 of r1.scratch[1] are not within its 2 slots (chunk 0 on)"});
  plan = pair_broadcast();
  operation(plan, 1, 0, 1).destinations[0].slot = 1;
  expect_refused(plan, {"only scratch and host have slots, but r1.output names 1"});
}

TEST(VerifierBounds, BuffersCoverTheirChunksOnly) {
  Plan plan = pair_broadcast();
  operation(plan, 1, 0, 1).sources[0] = input_of(1);
  expect_refused(plan, {"rank 1, lane 0 (cpu), operation 1", "chunk 0 is not in r1.input, which holds none"});
  plan = test::pull_all_gather(2, 2, Engine::kCpu);
  operation(plan, 0, 0, 0).chunk = 1;
  expect_refused(plan, {"chunk 2 is not in r0.input, which holds chunks 0..1"});
  plan = pair_broadcast();
  operation(plan, 0, 0, 0).destinations[0] = input_of(0);
  expect_refused(plan, {"stores to r0.input, which is only ever read"});
}

TEST(VerifierBounds, Reach) {
  Plan plan = test::direct_all_reduce(2);
  plan.reach = Reach::kStaged;
  expect_refused(plan, {"belongs to another rank's caller, out of reach in a staged plan"});
  plan = pair_broadcast();
  plan.node_of = {0, 1};
  expect_refused(plan, {"r1.scratch[0] is on node 1, out of load and store reach of node 0; use send and receive"});
  plan = test::dissemination_barrier(2);
  plan.node_of = {0, 1};
  expect_refused(plan, {"rank 1 is on another node; a message signals there"});
}

TEST(VerifierBounds, Engines) {
  Plan plan = pair_broadcast();
  plan.ranks[0].lanes[0].engine = Engine::kCopy;
  expect_refused(plan, {"rank 0, lane 0 (copy), operation 0", "a copy engine copies from one place to one place"});
  plan.ranks[0].lanes[0].engine = Engine::kNet;
  expect_refused(plan, {"a net lane only sends, receives, signals and waits"});
  plan = test::two_node_all_reduce(2, 1);
  plan.ranks[0].lanes[1].engine = Engine::kSm;
  expect_refused(plan, {"an sm lane cannot send or receive"});
  plan.ranks[0].lanes[1].engine = Engine::kCpu;
  EXPECT_NO_THROW(verify(plan));
  plan = pair_broadcast();
  operation(plan, 0, 0, 0).sources.push_back(input_of(0));
  expect_refused(plan, {"combines 2 sources, but broadcast reduces nothing"});
  operation(plan, 0, 0, 0).sources.clear();
  expect_refused(plan, {"a fold needs at least one source and one destination"});
  plan = pair_broadcast();
  operation(plan, 0, 0, 1).sources.push_back(input_of(0));
  expect_refused(plan, {"operation 1", "moves no data, but names places"});
}

TEST(VerifierBounds, UnfinishedReductionsStayOutOfOutputs) {
  PlanBuilder b({"x", Collective::kReduce, 3, 0, 1});
  const LaneId lane0 = b.add_lane(0, Engine::kCpu), lane1 = b.add_lane(1, Engine::kCpu);
  const Place slot = b.take_scratch(0);
  b.copy(lane1, slot, input_of(1), 0);
  b.wait(b.signal(lane1, lane0));
  b.fold(lane0, {output_of(0)}, {input_of(0), slot}, 0);
  expect_refused(b.finish(), {"rank 0, lane 0 (cpu), operation 1",
                              "puts an unfinished reduction of chunk 0 (2 of 3 ranks) "
                              "into r0.output"});
}

// --- places that share memory within one operation ---

TEST(VerifierOverlap, DestinationsAreApart) {
  Plan plan = pair_broadcast();
  operation(plan, 0, 0, 0).destinations[0] = {1, Buffer::kScratch, 0};
  expect_refused(plan,
                 {"operation 0", "writes chunk 0 on to r1.scratch[0] and r1.scratch[0], which are the same place"});
  plan = pair_broadcast(2);
  plan.ranks[1].scratch_slots = 3;
  operation(plan, 0, 0, 0).destinations[0] = {1, Buffer::kScratch, 1};
  expect_refused(plan, {"writes chunk 0 on to r1.scratch[0] and r1.scratch[1], which overlap"});
}

TEST(VerifierOverlap, SourceAndDestinationOverlapWhollyOrNotAtAll) {
  const auto shifted = [](int from, int to, int chunks) {
    return two_ranks(
        Collective::kBroadcast,
        [&](PlanBuilder& b, LaneId lane0, LaneId lane1) {
          const Place slots = b.take_scratch(0, 8);
          b.copy(lane0, output_of(0), input_of(0), 0, chunks);
          b.copy(lane0, slot_after(slots, from), input_of(0), 0, chunks);
          b.copy(lane0, slot_after(slots, to), slot_after(slots, from), 0, chunks);
          b.wait(b.signal(lane0, lane1));
          b.copy(lane1, output_of(1), slot_after(slots, to), 0, chunks);
        },
        chunks);
  };
  EXPECT_NO_THROW(verify(shifted(0, 3, 3)));
  EXPECT_NO_THROW(verify(shifted(3, 0, 3)));
  EXPECT_NO_THROW(verify(shifted(2, 2, 3)));  // each element onto itself
  // Downwards and one by one this would even work; a fold that works on many elements at once breaks it.
  expect_refused(shifted(3, 1, 3), {"operation 2",
                                    "source r0.scratch[3] and destination r0.scratch[1] overlap in part for "
                                    "the 3 chunks from chunk 0 on"});
  expect_refused(shifted(1, 3, 3), {"source r0.scratch[1] and destination r0.scratch[3] overlap in part"});
}

TEST(VerifierOverlap, AFoldOntoItsSourceKeepsTheWidth) {
  // p ranks add up in one slot of rank 0, one after the other.
  const auto accumulate = [](int ranks) {
    PlanBuilder b({"x", Collective::kReduce, ranks, 0, 1});
    std::vector<LaneId> lanes;
    for (int r = 0; r < ranks; ++r) lanes.push_back(b.add_lane(r, Engine::kCpu));
    const Place sum = b.take_scratch(0);
    b.copy(lanes[0], sum, input_of(0), 0);
    for (int r = 1; r < ranks; ++r) {
      b.wait(b.signal(lanes[r - 1], lanes[r]));
      b.fold(lanes[r], {sum}, {sum, input_of(r)}, 0);
    }
    b.wait(b.signal(lanes[ranks - 1], lanes[0]));
    b.copy(lanes[0], output_of(0), sum, 0);
    return b.finish();
  };
  EXPECT_NO_THROW(verify(accumulate(2)));  // never unfinished
  expect_refused(accumulate(3), {"rank 1, lane 0 (cpu), operation 1", "writes chunk 0 onto its source r0.scratch[0]",
                                 "may differ in width"});
  // From one unfinished reduction to the next is fine: 5 ranks, where ranks 2 and 3 fold in place.
  Plan plan = accumulate(5);
  plan.ranks[0].scratch_slots = 3;
  const auto move_to = [&](int rank, int index, int slot, bool source) {
    auto& places = source ? operation(plan, rank, 0, index).sources : operation(plan, rank, 0, index).destinations;
    places[0].slot = slot;
  };
  move_to(1, 1, 1, false);
  for (int rank : {2, 3}) {
    move_to(rank, 1, 1, true);
    move_to(rank, 1, 1, false);
  }
  move_to(4, 1, 1, true);
  move_to(4, 1, 2, false);
  move_to(0, 3, 2, true);
  EXPECT_NO_THROW(verify(plan));
}

// --- in place ---

TEST(VerifierInPlace, InputIsOverwrittenWhereItSharesMemoryWithTheOutput) {
  Plan plan = test::swap_all_reduce(1);
  EXPECT_NO_THROW(verify(plan));
  plan.in_place = true;
  expect_refused(plan, {"(in place), rank", "lane 0 (sm), operation 2", "chunk 0"});
  // A reduce has no output but the root's, so other inputs are never overwritten.
  Plan tree = test::tree_reduce(4, 1);
  ASSERT_TRUE(tree.in_place);
  EXPECT_NO_THROW(verify(tree));
}

TEST(VerifierInPlace, SelfCopyWhileOthersRead) {
  // With buffers apart, rank 0 may fill its output while rank 1 reads its input; in place it stores to what is read.
  Plan plan = test::pull_all_gather(2, 1, Engine::kCpu);
  auto& operations = plan.ranks[0].lanes[0].operations;
  std::swap(operations[0], operations[1]);  // signals before it copies
  expect_refused(plan, {"(in place)", "rank 0", "r0."});
  plan.in_place = false;
  EXPECT_NO_THROW(verify(plan));
}

TEST(VerifierInPlace, CopyEnginesLeaveOutCopiesOntoThemselves) {
  Plan plan = test::pull_all_gather(2, 1, Engine::kCopy);
  auto& operations = plan.ranks[0].lanes[0].operations;
  std::swap(operations[0], operations[1]);  // signals before it copies
  EXPECT_NO_THROW(verify(plan));
}

// Only those: in place, rank 0 stores block 1 where its own input for rank 1 lies, while rank 1 may read that.
TEST(VerifierInPlace, CopyEnginesStoreWhatComesFromElsewhere) {
  PlanBuilder builder({"exchange", Collective::kAllToAll, 2, 0, 1, Reach::kPeer});
  const LaneId a = builder.add_lane(0, Engine::kCopy), b = builder.add_lane(1, Engine::kCopy);
  const SignalId to_b = builder.signal(a, b), to_a = builder.signal(b, a);
  builder.wait(to_a);
  builder.wait(to_b);
  for (const auto& [lane, chunk] : {std::pair{a, 2}, std::pair{b, 1}}) {
    builder.copy(lane, output_of(lane.rank), input_of(1 - lane.rank), chunk);
    builder.copy(lane, output_of(lane.rank), input_of(lane.rank), 3 * lane.rank);
  }
  const SignalId read_b = builder.signal(a, b), read_a = builder.signal(b, a);
  builder.wait(read_a);
  builder.wait(read_b);
  Plan plan = builder.finish();
  expect_refused(plan, {"(in place)"});
  plan.in_place = false;
  EXPECT_NO_THROW(verify(plan));
}

TEST(VerifierInPlace, InputIsReadBeforeTheOutputIsWrittenOverIt) {
  Plan plan = test::one_shot_all_reduce(2);
  ASSERT_TRUE(plan.in_place);
  Operation late = plan.ranks[0].lanes[0].operations.back();
  late.chunks = 1;
  late.sources = {input_of(0)};
  late.destinations = {{0, Buffer::kScratch, plan.ranks[0].scratch_slots++}};
  plan.ranks[0].lanes[0].operations.push_back(late);
  expect_refused(plan, {"(in place), rank 0, lane 0", "reads chunk 0 from r0.input after rank 0 lane 0 operation",
                        "wrote the output over it"});
  plan.in_place = false;
  EXPECT_NO_THROW(verify(plan));
}

// --- plans that nobody built ---

TEST(VerifierShape, Collectives) {
  const auto with = [](const std::function<void(Plan&)>& change) {
    Plan plan = pair_broadcast();
    change(plan);
    return plan;
  };
  expect_refused(with([](Plan& p) { p.ranks.clear(); }), {"has no ranks"});
  expect_refused(with([](Plan& p) { p.node_of.pop_back(); }), {"names the node of 1 ranks, but has 2 ranks"});
  expect_refused(with([](Plan& p) { p.root = 2; }), {"root 2 is not one of its 2 ranks"});
  expect_refused(with([](Plan& p) { p.blocks = 2; }), {"needs 1 blocks, has 2"});
  expect_refused(with([](Plan& p) { p.chunks_per_block = 0; }), {"needs at least one chunk a block, has 0"});
  expect_refused(with([](Plan& p) { p.chunks_per_block = kMaxChunks + 1; }), {"the limit is 16777216"});
  expect_refused(with([](Plan& p) { p.collective = static_cast<Collective>(77); }), {"unknown collective"});
  expect_refused(with([](Plan& p) { p.reach = static_cast<Reach>(77); }), {"unknown collective or reach"});
  expect_refused(with([](Plan& p) { p.ranks[1].lanes[0].engine = static_cast<Engine>(9); }),
                 {"rank 1 has a lane of an unknown engine"});
  expect_refused(with([](Plan& p) { operation(p, 1, 0, 1).kind = static_cast<OpKind>(9); }),
                 {"rank 1 lane 0 operation 1", "unknown kind of operation"});
  expect_refused(with([](Plan& p) { operation(p, 1, 0, 1).sources[0].buffer = static_cast<Buffer>(9); }),
                 {"rank 1 lane 0 operation 1", "unknown buffer"});
  Plan barrier = test::dissemination_barrier(2);
  barrier.chunks_per_block = 4;
  expect_refused(barrier, {"a barrier moves no data, but the plan has 0 blocks of 4 chunks"});
}

TEST(VerifierShape, RanksWithoutLanes) {
  Plan plan = pair_broadcast();
  plan.ranks[1].lanes.clear();
  expect_refused(plan, {"rank 0, lane 0 (cpu), operation 1", "lane 0 of rank 1 does not exist"});
  plan.ranks[0].lanes[0].operations.pop_back();
  plan.ranks[1].signals = 0;
  expect_refused(plan, {"rank 1, chunk 0: its output was never written"});
  plan.ranks[0].lanes.clear();
  expect_refused(plan, {"rank 0, chunk 0: its output was never written"});
}

TEST(VerifierShape, HugeCountsAreRefusedBeforeAnythingIsAllocated) {
  const int huge = std::numeric_limits<int>::max();
  const auto with = [](const std::function<void(RankPlan&)>& change) {
    Plan plan = pair_broadcast();
    change(plan.ranks[1]);
    return plan;
  };
  expect_refused(with([&](RankPlan& r) { r.scratch_slots = huge; }), {"its proof would take about 103 GB"});
  expect_refused(with([&](RankPlan& r) { r.host_slots = huge; }), {"its proof would take about 103 GB"});
  expect_refused(with([&](RankPlan& r) { r.signals = huge; }), {"rank 1 counts 2147483647 signals"});
  expect_refused(with([&](RankPlan& r) { r.messages = huge; }),
                 {"2147483647 messages, more than there are operations"});
  expect_refused(with([](RankPlan& r) { r.scratch_slots = -1; }), {"rank 1 counts -1 scratch slots"});
  expect_refused(with([](RankPlan& r) { r.signals = -1; }), {"rank 1 counts -1 signals"});
  Plan lanes = test::dissemination_barrier(2);
  lanes.ranks[0].lanes.resize(100000);
  EXPECT_NO_THROW(verify(lanes));  // lanes that hear of nobody hold no clocks
  for (Lane& lane : lanes.ranks[0].lanes) lane.operations.push_back(operation(lanes, 0, 0, 1));
  expect_refused(lanes, {"its proof would take about 40", " GB", "Use fewer ranks, slots, chunks or lanes"});
}

// Every number of a plan, one after the other, becomes an absurd one: the verifier says no (or, where the number means
// nothing, yes) and neither crashes nor overflows.
TEST(VerifierShape, AbsurdNumbers) {
  for (const Plan& original : {pair_broadcast(2), test::two_node_all_reduce(2, 2), test::ring_all_reduce(2)}) {
    Plan plan = original;
    std::vector<int*> numbers = {&plan.root, &plan.blocks, &plan.chunks_per_block};
    for (int& node : plan.node_of) numbers.push_back(&node);
    for (RankPlan& rank : plan.ranks) {
      for (int* n : {&rank.scratch_slots, &rank.host_slots, &rank.signals, &rank.messages}) numbers.push_back(n);
      for (Lane& lane : rank.lanes) {
        for (Operation& o : lane.operations) {
          for (int* n : {&o.chunk, &o.chunks, &o.peer_rank, &o.peer_lane, &o.number}) numbers.push_back(n);
          for (auto* places : {&o.sources, &o.destinations}) {
            for (Place& place : *places) {
              numbers.push_back(&place.rank);
              numbers.push_back(&place.slot);
            }
          }
        }
      }
    }
    for (int* number : numbers) {
      const int right = *number;
      for (const int absurd :
           {std::numeric_limits<int>::min(), -2, -1, 0, 1, 2, 1 << 12, std::numeric_limits<int>::max()}) {
        *number = absurd;
        try {
          verify(plan);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan) << error.what();
        }
      }
      *number = right;
    }
    EXPECT_EQ(plan, original);
  }
}

}  // namespace
}  // namespace plait
