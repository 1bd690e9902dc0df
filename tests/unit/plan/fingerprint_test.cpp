// Fingerprints of plans: equal for equal plans, and no part of a plan may change without them.
#include "plan/fingerprint.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "plan/builder.hpp"
#include "plan/json.hpp"
#include "plan/verifier.hpp"

namespace plait {
namespace {

Plan pair() {
  PlanBuilder builder({"pair", Collective::kBroadcast, 2, 0, 2});
  const QueueId from = builder.add_queue(0, Engine::kSm), to = builder.add_queue(1, Engine::kSm);
  const Place slot = builder.take_scratch(1, 2);
  builder.reduce(from, {output_of(0), slot}, {input_of(0)}, 0, 2);
  builder.wait(builder.signal(from, to));
  builder.copy(to, output_of(1), slot, 0, 2);
  return builder.finish();
}

TEST(Fingerprint, IsThatOfTheSamePlan) {
  const Plan plan = pair();
  EXPECT_EQ(fingerprint(plan), fingerprint(pair()));
  EXPECT_EQ(fingerprint(plan), fingerprint(plan_from_json(to_json(plan), "test")));
  EXPECT_EQ(fingerprint(plan), verify(plan).fingerprint());
}

TEST(Fingerprint, ChangesWithEveryPart) {
  const auto operation = [](Plan& plan) -> Operation& { return plan.ranks[0].queues[0].operations[0]; };
  const std::function<void(Plan&)> changes[] = {
      [](Plan&) {},
      [](Plan& it) { it.algorithm = "pear"; },
      [](Plan& it) { it.collective = Collective::kReduce; },
      [](Plan& it) { it.access = Access::kZeroCopy; },
      [](Plan& it) { it.root = 1; },
      [](Plan& it) { it.blocks = 2; },
      [](Plan& it) { it.chunks_per_block = 3; },
      [](Plan& it) { it.in_place = !it.in_place; },
      [](Plan& it) { it.node_of[1] = 1; },
      [](Plan& it) { it.ranks.emplace_back(); },
      [](Plan& it) { it.ranks[0].queues.emplace_back(); },
      [](Plan& it) { it.ranks[0].queues[0].engine = Engine::kCopy; },
      [](Plan& it) { ++it.ranks[0].scratch_slots; },
      [](Plan& it) { ++it.ranks[0].host_slots; },
      [](Plan& it) { ++it.ranks[0].signals; },
      [](Plan& it) { ++it.ranks[0].messages; },
      [](Plan& it) { it.ranks[0].queues[0].operations.emplace_back(); },
      [&](Plan& it) { operation(it).kind = OpKind::kSend; },
      [&](Plan& it) { operation(it).chunk = 1; },
      [&](Plan& it) { operation(it).chunks = 1; },
      [&](Plan& it) { operation(it).peer_rank = 0; },
      [&](Plan& it) { operation(it).peer_queue = 0; },
      [&](Plan& it) { operation(it).number = 0; },
      [&](Plan& it) { std::swap(operation(it).destinations[0], operation(it).destinations[1]); },
      [&](Plan& it) { operation(it).destinations.pop_back(); },
      [&](Plan& it) { operation(it).sources[0].rank = 1; },
      [&](Plan& it) { operation(it).sources[0].buffer = Buffer::kHost; },
      [&](Plan& it) { operation(it).sources[0].slot = 1; },
      // A place that moves from one list to the other.
      [&](Plan& it) {
        operation(it).sources.insert(operation(it).sources.begin(), operation(it).destinations[1]);
        operation(it).destinations.pop_back();
      },
  };
  std::set<uint64_t> seen;
  for (const auto& change : changes) {
    Plan plan = pair();
    change(plan);
    EXPECT_TRUE(seen.insert(fingerprint(plan)).second) << "change " << &change - changes;
    EXPECT_NE(fingerprint(plan), 0u);
  }
}

TEST(Fingerprint, HasSixteenDigits) {
  EXPECT_EQ(fingerprint_text(0x00c5a1f3902b7e64), "00c5a1f3902b7e64");
  EXPECT_EQ(fingerprint_text(UINT64_MAX), "ffffffffffffffff");
  EXPECT_EQ(fingerprint_text(1), "0000000000000001");
}

}  // namespace
}  // namespace plait
