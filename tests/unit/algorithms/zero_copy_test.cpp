// Zero-copy plans of `flat` by load: the form that copy engines need, and what is refused.
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "plan/builder.hpp"
#include "plan/json.hpp"
#include "plan/picture.hpp"
#include "plan/text.hpp"
#include "unit/algorithms/plans.hpp"

namespace plait {
namespace {

using test::expect_invalid;

AlgorithmArguments arguments_for(Collective collective, int ranks, Engine engine = Engine::kCopy) {
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = ranks;
  arguments.root = has_root(collective) ? ranks / 2 : 0;
  arguments.engine = engine;
  arguments.access = Access::kZeroCopy;
  return arguments;
}

// The kinds of a queue's operations, such as "signal wait reduce signal wait".
std::string kinds(const Queue& queue) {
  std::string text;
  for (const Operation& operation : queue.operations)
    text += (text.empty() ? "" : " ") + std::string(name(operation.kind));
  return text;
}

// The peer of all signals and waits of a queue, or -1 if it has none.
int only_peer(const Queue& queue) {
  std::set<std::pair<int, int>> peers;
  for (const Operation& operation : queue.operations) {
    if (operation.peer_rank >= 0) peers.insert({operation.peer_rank, operation.peer_queue});
  }
  EXPECT_LE(peers.size(), 1U);
  return peers.empty() ? -1 : peers.begin()->first;
}

// The ranks whose chunks the queue copies into its own rank's output.
std::set<int> copied_from(const Queue& queue, int rank) {
  std::set<int> ranks;
  for (const Operation& operation : queue.operations) {
    if (operation.kind != OpKind::kReduce) continue;
    EXPECT_EQ(operation.destinations, std::vector<Place>{output_of(rank)});
    EXPECT_EQ(operation.sources.at(0).buffer, Buffer::kInput);
    ranks.insert(operation.sources.at(0).rank);
  }
  return ranks;
}

constexpr const char* kGives = "signal wait";
constexpr const char* kTakes = "wait reduce signal";
constexpr const char* kBoth = "signal wait reduce signal wait";

void expect_shape(const Plan& plan, Collective collective, int root) {
  const int ranks = plan.rank_count();
  for (int rank = 0; rank < ranks; ++rank) {
    SCOPED_TRACE(join(name(collective), ", rank ", rank));
    const auto& queues = plan.ranks[rank].queues;
    EXPECT_EQ(plan.ranks[rank].scratch_slots, 0);
    size_t next = 0;
    for (int d = 1; d < ranks; ++d) {
      const int other = (rank + d) % ranks;
      if (has_root(collective) && rank != root && other != root) continue;
      const bool takes = !has_root(collective) || (collective == Collective::kGather ? rank : other) == root;
      const bool gives = !has_root(collective) || !takes;
      ASSERT_LT(next, queues.size());
      const Queue& queue = queues[next++];
      EXPECT_EQ(kinds(queue), takes && gives ? kBoth : takes ? kTakes : kGives);
      EXPECT_EQ(only_peer(queue), other);
      EXPECT_EQ(copied_from(queue, rank), takes ? std::set<int>{other} : std::set<int>{});
    }
    if (has_root(collective) && rank != root) {
      EXPECT_EQ(queues.size(), next);
      continue;
    }
    ASSERT_EQ(queues.size(), next + 1);
    EXPECT_EQ(kinds(queues[next]), "reduce");
    EXPECT_EQ(copied_from(queues[next], rank), std::set<int>{rank});
  }
}

const std::vector<Collective> kServed = {Collective::kBroadcast, Collective::kAllGather, Collective::kGather,
                                         Collective::kScatter, Collective::kAllToAll};

TEST(ZeroCopyLoad, AQueueForEveryPeerAndOneForTheRankItself) {
  for (const Collective collective : kServed) {
    for (const int ranks : {1, 2, 3, 4, 8}) {
      const AlgorithmArguments arguments = arguments_for(collective, ranks);
      const VerifiedPlan plan = test::verified("flat(load, zero_copy)", arguments);
      EXPECT_EQ(plan.plan().chunks_per_block, 1);
      EXPECT_EQ(plan.report().steps, ranks == 1 ? 0 : 2);
      expect_shape(plan.plan(), collective, arguments.root);
    }
  }
}

TEST(ZeroCopyLoad, EveryRankReadsWhatItNeedsOnce) {
  const auto read = [](Collective collective) {
    return test::verified("flat(load, zero_copy)", arguments_for(collective, 4)).report().chunks_read;  // root 2
  };
  EXPECT_EQ(read(Collective::kBroadcast), (std::vector<int64_t>{1, 1, 1, 1}));
  EXPECT_EQ(read(Collective::kAllGather), (std::vector<int64_t>{4, 4, 4, 4}));
  EXPECT_EQ(read(Collective::kGather), (std::vector<int64_t>{0, 0, 4, 0}));
  EXPECT_EQ(read(Collective::kScatter), (std::vector<int64_t>{1, 1, 1, 1}));
  EXPECT_EQ(read(Collective::kAllToAll), (std::vector<int64_t>{4, 4, 4, 4}));
}

// Engines other than copy engines store what is already there, while others read it.
TEST(ZeroCopyLoad, InPlaceWhereNothingIsStoredThatOthersRead) {
  for (const Collective collective : kServed) {
    for (const Engine engine : {Engine::kSm, Engine::kCopy, Engine::kCpu}) {
      const bool apart_only =
          collective == Collective::kAllToAll ||
          (engine == Engine::kCpu && (collective == Collective::kAllGather || collective == Collective::kBroadcast));
      Plan plan = make_plan("flat(load, zero_copy)", arguments_for(collective, 3, engine));
      EXPECT_EQ(plan.in_place, !apart_only) << name(collective) << ", " << name(engine);
      EXPECT_NO_THROW(verify(plan));
      plan.in_place = true;
      if (apart_only) {
        EXPECT_THROW(verify(plan), Error) << name(collective) << ", " << name(engine);
      }
      EXPECT_TRUE(make_plan("flat(load, zero_copy)", arguments_for(collective, 1, engine)).in_place);
    }
  }
}

TEST(ZeroCopyLoad, RefusesWhatItCannotUse) {
  AlgorithmArguments arguments = arguments_for(Collective::kAllGather, 4);
  EXPECT_EQ(make_plan("flat(load)", arguments).algorithm, "flat(load, zero_copy, engine=copy)");
  arguments.parts = 7;
  expect_invalid([&] { make_plan("flat(load)", arguments); }, "no parts in a zero-copy plan of all_gather");
  arguments = arguments_for(Collective::kAllGather, 4);
  arguments.access = Access::kStaged;
  expect_invalid([&] { make_plan("flat(load)", arguments); }, "queues of engine copy cannot perform this plan");
  arguments = arguments_for(Collective::kAllGather, 4);
  arguments.node_of = {0, 0, 1, 1};
  expect_invalid([&] { make_plan("flat(load)", arguments); }, "ranks 0 and 2 are on different nodes");
  arguments.node_of = {};
  arguments.engine = Engine::kNet;
  expect_invalid([&] { make_plan("flat(load)", arguments); }, "use sm or cpu, or copy for zero-copy plans by load");
}

TEST(ZeroCopyLoad, CopyQueuesAreWrittenAndDrawn) {
  for (const Collective collective : kServed) {
    const VerifiedPlan verified = test::verified("flat(load, zero_copy)", arguments_for(collective, 3));
    EXPECT_EQ(plan_from_json(to_json(verified.plan()), "plan.json"), verified.plan());
    EXPECT_NE(to_text(verified.plan()).find("(copy)"), std::string::npos);
    EXPECT_NE(to_svg(verified).find("copy"), std::string::npos);
    EXPECT_FALSE(to_text_picture(verified.plan()).empty());
  }
}

}  // namespace
}  // namespace plait
