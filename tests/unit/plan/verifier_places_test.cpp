// The verifier's rules on places: which places exist, who may access them, and which share memory. Also plans that no
// builder made.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "plan/builder.hpp"
#include "plan/conditions.hpp"
#include "plan/verifier.hpp"
#include "property/plan_zoo.hpp"
#include "support/pair_plans.hpp"

namespace plait {
namespace {

using test::expect_refused;
using test::operation;
using test::pair_broadcast;
using test::two_ranks;

// --- bounds and access ---

TEST(VerifierBounds, PlacesExist) {
  Plan plan = pair_broadcast();
  operation(plan, 0, 0, 0).destinations[1].rank = 2;
  expect_refused(plan, {"rank 0, queue 0 (cpu), operation 0", "rank 2 of r2.scratch[0] does not exist"});
  plan = pair_broadcast();
  operation(plan, 0, 0, 0).chunk = 1;
  expect_refused(plan, {"operation 0", "chunks 1..1 are not within the 1 chunk of the message"});
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
  expect_refused(plan, {"rank 1, queue 0 (cpu), operation 1", "chunk 0 is not in r1.input, which holds none"});
  plan = test::pull_all_gather(2, 2, Engine::kCpu);
  operation(plan, 0, 0, 0).chunk = 1;
  expect_refused(plan, {"chunk 2 is not in r0.input, which holds chunks 0..1"});
  plan = pair_broadcast();
  operation(plan, 0, 0, 0).destinations[0] = input_of(0);
  expect_refused(plan, {"stores to r0.input, which is only ever read"});
}

TEST(VerifierBounds, Access) {
  Plan plan = test::direct_all_reduce(2);
  plan.access = Access::kStaged;
  expect_refused(plan, {"is a user buffer of another rank, which a staged plan must not access"});
  plan = pair_broadcast();
  plan.node_of = {0, 1};
  expect_refused(plan, {"r1.scratch[0] is on node 1, which node 0 cannot load from or store to; use send and receive"});
  plan = test::dissemination_barrier(2);
  plan.node_of = {0, 1};
  expect_refused(plan, {"rank 1 is on another node; a message signals there"});
}

TEST(VerifierBounds, Engines) {
  Plan plan = pair_broadcast();
  plan.ranks[0].queues[0].engine = Engine::kCopy;
  expect_refused(plan, {"rank 0, queue 0 (copy), operation 0", "a copy engine copies from one place to one place"});
  plan.ranks[0].queues[0].engine = Engine::kNet;
  expect_refused(plan, {"a net queue only sends, receives, signals and waits"});
  plan = test::two_node_all_reduce(2, 1);
  plan.ranks[0].queues[1].engine = Engine::kSm;
  expect_refused(plan, {"an sm queue cannot send or receive"});
  plan.ranks[0].queues[1].engine = Engine::kCpu;
  EXPECT_NO_THROW(verify(plan));
  plan = pair_broadcast();
  operation(plan, 0, 0, 0).sources.push_back(input_of(0));
  expect_refused(plan, {"combines 2 sources, but broadcast reduces nothing"});
  operation(plan, 0, 0, 0).sources.clear();
  expect_refused(plan, {"a reduce needs at least one source and one destination"});
  plan = pair_broadcast();
  operation(plan, 0, 0, 1).sources.push_back(input_of(0));
  expect_refused(plan, {"operation 1", "moves no data, but names places"});
}

// What an operation cannot have would be ignored when it runs. Whoever wrote it meant something by it.
TEST(VerifierBounds, NothingIsIgnored) {
  const auto refused = [](int index, void (*edit)(Operation&), const std::string& part) {
    Plan plan = pair_broadcast();
    edit(operation(plan, 0, 0, index));
    expect_refused(plan, {"rank 0, queue 0 (cpu), operation " + std::to_string(index), part});
  };
  refused(0, [](Operation& it) { it.peer_rank = 1; }, "which a reduce has not");
  refused(0, [](Operation& it) { it.peer_queue = 0; }, "which a reduce has not");
  refused(0, [](Operation& it) { it.number = 0; }, "which a reduce has not");
  refused(1, [](Operation& it) { it.chunks = 2; }, "moves no data, but names places or chunks");
  refused(1, [](Operation& it) { it.chunk = 1; }, "moves no data, but names places or chunks");
}

TEST(VerifierBounds, UnfinishedReductionsStayOutOfOutputs) {
  PlanBuilder b({"x", Collective::kReduce, 3, 0, 1});
  const QueueId queue0 = b.add_queue(0, Engine::kCpu), queue1 = b.add_queue(1, Engine::kCpu);
  const Place slot = b.take_scratch(0);
  b.copy(queue1, slot, input_of(1), 0);
  b.wait(b.signal(queue1, queue0));
  b.reduce(queue0, {output_of(0)}, {input_of(0), slot}, 0);
  expect_refused(b.finish(), {"rank 0, queue 0 (cpu), operation 1",
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
        [&](PlanBuilder& b, QueueId queue0, QueueId queue1) {
          const Place slots = b.take_scratch(0, 8);
          b.copy(queue0, output_of(0), input_of(0), 0, chunks);
          b.copy(queue0, slot_after(slots, from), input_of(0), 0, chunks);
          b.copy(queue0, slot_after(slots, to), slot_after(slots, from), 0, chunks);
          b.wait(b.signal(queue0, queue1));
          b.copy(queue1, output_of(1), slot_after(slots, to), 0, chunks);
        },
        chunks);
  };
  EXPECT_NO_THROW(verify(shifted(0, 3, 3)));
  EXPECT_NO_THROW(verify(shifted(3, 0, 3)));
  EXPECT_NO_THROW(verify(shifted(2, 2, 3)));  // each element onto itself
  // Downwards and one by one this would even work, but a reduce works on many elements at once.
  expect_refused(shifted(3, 1, 3), {"operation 2",
                                    "source r0.scratch[3] and destination r0.scratch[1] overlap in part for "
                                    "the 3 chunks from chunk 0 on"});
  expect_refused(shifted(1, 3, 3), {"source r0.scratch[1] and destination r0.scratch[3] overlap in part"});
}

TEST(VerifierOverlap, AReduceOntoItsSourceKeepsTheWidth) {
  // p ranks add up in one slot of rank 0, one after the other.
  const auto accumulate = [](int ranks) {
    PlanBuilder b({"x", Collective::kReduce, ranks, 0, 1});
    std::vector<QueueId> queues;
    for (int r = 0; r < ranks; ++r) queues.push_back(b.add_queue(r, Engine::kCpu));
    const Place sum = b.take_scratch(0);
    b.copy(queues[0], sum, input_of(0), 0);
    for (int r = 1; r < ranks; ++r) {
      b.wait(b.signal(queues[r - 1], queues[r]));
      b.reduce(queues[r], {sum}, {sum, input_of(r)}, 0);
    }
    b.wait(b.signal(queues[ranks - 1], queues[0]));
    b.copy(queues[0], output_of(0), sum, 0);
    return b.finish();
  };
  EXPECT_NO_THROW(verify(accumulate(2)));  // never a partial result
  expect_refused(accumulate(3), {"rank 1, queue 0 (cpu), operation 1", "writes chunk 0 onto its source r0.scratch[0]",
                                 "may differ in width"});
  // From one unfinished reduction to the next is allowed: 5 ranks, of which ranks 2 and 3 reduce in place.
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
  expect_refused(plan, {"(in place), rank", "queue 0 (sm), operation 2", "chunk 0"});
  // Only the root of a reduce has an output, so other inputs are never overwritten.
  Plan tree = test::tree_reduce(4, 1);
  ASSERT_TRUE(tree.in_place);
  EXPECT_NO_THROW(verify(tree));
}

TEST(VerifierInPlace, SelfCopyWhileOthersRead) {
  // With separate buffers, rank 0 may fill its output while rank 1 reads its input. In place, it stores to what is
  // read.
  Plan plan = test::pull_all_gather(2, 1, Engine::kCpu);
  auto& operations = plan.ranks[0].queues[0].operations;
  std::swap(operations[0], operations[1]);  // rank 0 signals before it copies
  expect_refused(plan, {"(in place)", "rank 0", "r0."});
  plan.in_place = false;
  EXPECT_NO_THROW(verify(plan));
}

TEST(VerifierInPlace, CopyEnginesLeaveOutCopiesOntoThemselves) {
  Plan plan = test::pull_all_gather(2, 1, Engine::kCopy);
  auto& operations = plan.ranks[0].queues[0].operations;
  std::swap(operations[0], operations[1]);  // rank 0 signals before it copies
  EXPECT_NO_THROW(verify(plan));
}

// Only copies of memory onto itself are left out. In place, rank 0 stores block 1 over its own input for rank 1, which
// rank 1 may be reading.
TEST(VerifierInPlace, CopyEnginesStoreWhatComesFromElsewhere) {
  PlanBuilder builder({"exchange", Collective::kAllToAll, 2, 0, 1, Access::kZeroCopy});
  const QueueId a = builder.add_queue(0, Engine::kCopy), b = builder.add_queue(1, Engine::kCopy);
  const SignalId to_b = builder.signal(a, b), to_a = builder.signal(b, a);
  builder.wait(to_a);
  builder.wait(to_b);
  for (const auto& [queue, chunk] : {std::pair{a, 2}, std::pair{b, 1}}) {
    builder.copy(queue, output_of(queue.rank), input_of(1 - queue.rank), chunk);
    builder.copy(queue, output_of(queue.rank), input_of(queue.rank), 3 * queue.rank);
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
  Operation late = plan.ranks[0].queues[0].operations.back();
  late.chunks = 1;
  late.sources = {input_of(0)};
  late.destinations = {{0, Buffer::kScratch, plan.ranks[0].scratch_slots++}};
  plan.ranks[0].queues[0].operations.push_back(late);
  expect_refused(plan, {"(in place), rank 0, queue 0", "reads chunk 0 from r0.input after rank 0 queue 0 operation",
                        "wrote the output over it"});
  plan.in_place = false;
  EXPECT_NO_THROW(verify(plan));
}

// --- plans that no builder made ---

TEST(VerifierShape, Collectives) {
  const auto with = [](const std::function<void(Plan&)>& change) {
    Plan plan = pair_broadcast();
    change(plan);
    return plan;
  };
  expect_refused(with([](Plan& p) { p.ranks.clear(); }), {"has no ranks"});
  expect_refused(with([](Plan& p) { p.node_of.pop_back(); }), {"names the node of 1 rank, but has 2 ranks"});
  expect_refused(with([](Plan& p) { p.root = 2; }), {"root 2 is not one of its 2 ranks"});
  const auto to_all = [](Plan& p) {
    p.collective = Collective::kAllReduce;
    p.root = 1;
  };
  expect_refused(with(to_all), {"root 1 is named, but all_reduce has no root; write 0"});
  expect_refused(with([](Plan& p) { p.blocks = 2; }), {"needs 1 block, has 2"});
  expect_refused(with([](Plan& p) { p.chunks_per_block = 0; }), {"needs at least one chunk a block, has 0"});
  expect_refused(with([](Plan& p) { p.chunks_per_block = kMaxChunks + 1; }), {"the limit is 16777216"});
  expect_refused(with([](Plan& p) { p.collective = static_cast<Collective>(77); }), {"unknown collective"});
  expect_refused(with([](Plan& p) { p.access = static_cast<Access>(77); }), {"unknown collective or access"});
  expect_refused(with([](Plan& p) { p.ranks[1].queues[0].engine = static_cast<Engine>(9); }),
                 {"rank 1 has a queue of an unknown engine"});
  expect_refused(with([](Plan& p) { operation(p, 1, 0, 1).kind = static_cast<OpKind>(9); }),
                 {"rank 1 queue 0 operation 1", "unknown kind of operation"});
  expect_refused(with([](Plan& p) { operation(p, 1, 0, 1).sources[0].buffer = static_cast<Buffer>(9); }),
                 {"rank 1 queue 0 operation 1", "unknown buffer"});
  Plan barrier = test::dissemination_barrier(2);
  barrier.chunks_per_block = 4;
  expect_refused(barrier, {"a barrier moves no data, but the plan has 0 blocks of 4 chunks"});
}

TEST(VerifierShape, RanksWithoutQueues) {
  Plan plan = pair_broadcast();
  plan.ranks[1].queues.clear();
  expect_refused(plan, {"rank 0, queue 0 (cpu), operation 1", "queue 0 of rank 1 does not exist"});
  plan.ranks[0].queues[0].operations.pop_back();
  plan.ranks[1].signals = 0;
  expect_refused(plan, {"rank 1, chunk 0: its output was never written"});
  plan.ranks[0].queues.clear();
  expect_refused(plan, {"rank 0, chunk 0: its output was never written"});
}

TEST(VerifierShape, HugeCountsAreRefusedBeforeAnythingIsAllocated) {
  const int huge = std::numeric_limits<int>::max();
  const auto with = [](const std::function<void(RankPlan&)>& change) {
    Plan plan = pair_broadcast();
    change(plan.ranks[1]);
    return plan;
  };
  expect_refused(with([&](RankPlan& r) { r.scratch_slots = huge; }), {"its proof would take about 60.1 GB"});
  expect_refused(with([&](RankPlan& r) { r.host_slots = huge; }), {"its proof would take about 60.1 GB"});
  expect_refused(with([&](RankPlan& r) { r.signals = huge; }), {"rank 1 counts 2147483647 signals"});
  expect_refused(with([&](RankPlan& r) { r.messages = huge; }),
                 {"2147483647 messages, more than there are operations"});
  expect_refused(with([](RankPlan& r) { r.scratch_slots = -1; }), {"rank 1 counts -1 scratch slots"});
  expect_refused(with([](RankPlan& r) { r.signals = -1; }), {"rank 1 counts -1 signals"});
  Plan queues = test::dissemination_barrier(2);
  queues.ranks[0].queues.resize(300000);
  EXPECT_NO_THROW(verify(queues));  // queues that hear of nobody hold no clocks
  for (Queue& queue : queues.ranks[0].queues) queue.operations.push_back(operation(queues, 0, 0, 1));
  expect_refused(queues,
                 {"its proof would have to follow up to ", " GB of what queues hear", "Use fewer ranks, queues"});
}

// Every number of a plan in turn becomes an absurd one. The verifier refuses the plan (or accepts it, if the number
// means nothing), and neither crashes nor overflows.
TEST(VerifierShape, AbsurdNumbers) {
  for (const Plan& original : {pair_broadcast(2), test::two_node_all_reduce(2, 2), test::ring_all_reduce(2)}) {
    Plan plan = original;
    std::vector<int*> numbers = {&plan.root, &plan.blocks, &plan.chunks_per_block};
    for (int& node : plan.node_of) numbers.push_back(&node);
    for (RankPlan& rank : plan.ranks) {
      for (int* n : {&rank.scratch_slots, &rank.host_slots, &rank.signals, &rank.messages}) numbers.push_back(n);
      for (Queue& queue : rank.queues) {
        for (Operation& o : queue.operations) {
          for (int* n : {&o.chunk, &o.chunks, &o.peer_rank, &o.peer_queue, &o.number}) numbers.push_back(n);
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
