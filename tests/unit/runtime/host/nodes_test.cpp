// Plans over several nodes give, to the bit, what they give on one node, where messages are stores. Nodes are segments
// of this process here, and ranks are its threads.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <thread>

#include "algorithms/algorithm.hpp"
#include "plan/builder.hpp"
#include "plan/one_node.hpp"
#include "runtime/host/host_rank.hpp"
#include "runtime/net/open_transport.hpp"
#include "support/late_transport.hpp"
#include "support/outcome.hpp"

namespace plait::test {
namespace {

constexpr size_t kScratchBytes = 96 << 10;
constexpr int kSignals = 512;
using Buffers = std::vector<std::vector<std::byte>>;  // of each rank
using MakeTransport = std::function<std::unique_ptr<Transport>(int rank)>;

BindLimits limits(bool messages) {
  BindLimits limits;
  limits.scratch_bytes = kScratchBytes;
  limits.signals = kSignals;
  limits.signal_stride = Segment::kSignalStride;
  limits.messages = messages;
  return limits;
}

// The ranks of a communicator, each for a thread of its own.
class World {
 public:
  // Over one node where there is no transport.
  World(const std::vector<int>& node_of, const MakeTransport& make, double timeout_seconds = 4) : node_of_(node_of) {
    const auto ranks = static_cast<int>(node_of.size());
    std::map<int, std::shared_ptr<Segment>> segments;
    std::vector<std::unique_ptr<Transport>> transports;
    std::vector<std::string> addresses;
    for (int rank = 0; rank < ranks && make; ++rank) {
      transports.push_back(make(rank));
      addresses.push_back(transports.back()->address());
    }
    HostRank::Options options;
    options.waits.timeout_seconds = timeout_seconds;
    options.wait_policy = WaitPolicy::kYield;
    for (int rank = 0; rank < ranks; ++rank) {
      auto& segment = segments[make ? node_of[rank] : 0];
      if (!segment) segment = std::make_shared<Segment>(SegmentShape{ranks, kScratchBytes, kSignals});
      segments_.push_back(segment);
      auto others =
          make ? std::make_unique<OtherNodes>(std::move(transports[rank]), rank, addresses, node_of) : nullptr;
      ranks_.push_back(std::make_unique<HostRank>(segment, rank, Peers(std::vector<int>(ranks, ::getpid())), options,
                                                  std::move(others)));
    }
  }

  int size() const { return static_cast<int>(ranks_.size()); }
  HostRank& rank(int rank) { return *ranks_[rank]; }

  // Makes the call `times` times, for the results of the last one.
  std::vector<Outcome> run(const VerifiedPlan& plan, const Call& call, const Buffers& inputs, Buffers& outputs,
                           int times, bool messages) {
    std::vector<Outcome> outcomes(node_of_.size());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) {
      threads.emplace_back([&, rank] {
        outcomes[rank] = outcome_of(
            [&](int it) {
              const BoundPlan bound = bind(plan, call, it, limits(messages));
              for (int i = 0; i < times; ++i) ranks_[it]->run(bound, call, inputs[it].data(), outputs[it].data());
            },
            rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return outcomes;
  }

 private:
  const std::vector<int> node_of_;
  std::vector<std::shared_ptr<Segment>> segments_;
  std::vector<std::unique_ptr<HostRank>> ranks_;
};

// Sums of these are exact: slices, and so the order of elements in a reduction, differ between one node and several.
std::vector<std::byte> random_input(Random& random, size_t elements, DataType type) {
  std::vector<std::byte> data(elements * size_of(type));
  constexpr std::array<uint16_t, 5> kSmallHalves = {0, 0x3c00, 0x4000, 0x4200, 0x4400};  // 0 to 4
  for (size_t i = 0; i < elements; ++i) {
    const double small = static_cast<double>(random() % 16);
    const uint16_t half = any_of(random, kSmallHalves);
    const auto word = static_cast<uint32_t>(random());
    const void* value = type == DataType::kFloat64   ? static_cast<const void*>(&small)
                        : type == DataType::kFloat16 ? static_cast<const void*>(&half)
                                                     : &word;
    std::memcpy(data.data() + i * size_of(type), value, size_of(type));
  }
  return data;
}

Buffers buffers(int ranks, const std::function<size_t(int)>& elements, DataType type) {
  Buffers all;
  for (int rank = 0; rank < ranks; ++rank) all.emplace_back(std::max<size_t>(elements(rank), 1) * size_of(type));
  return all;
}

std::string failures(const std::vector<Outcome>& outcomes) {
  std::string text;
  for (const Outcome& outcome : outcomes) {
    if (!outcome.well()) text += describe(outcome) + "\n";
  }
  return text;
}

// Compares the plan over nodes with itself on one.
void expect_same(World& world, World& one, const VerifiedPlan& plan, const Call& call, Random& random) {
  const int ranks = world.size();
  Buffers inputs, got, expected;
  for (int rank = 0; rank < ranks; ++rank) {
    inputs.push_back(random_input(random, std::max<size_t>(input_elements(call, ranks, rank), 1), call.type));
  }
  got = expected = buffers(ranks, [&](int rank) { return output_elements(call, ranks, rank); }, call.type);
  const std::string what = join(plan.plan().algorithm, ": ", to_text(call));
  ASSERT_EQ(failures(one.run(verify(on_one_node(plan.plan())), call, inputs, expected, 1, false)), "") << what;
  ASSERT_EQ(failures(world.run(plan, call, inputs, got, 2, true)), "") << what;
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_TRUE(got[rank] == expected[rank]) << what << ", rank " << rank;
  }
}

Call random_call(Random& random, const Plan& plan) {
  constexpr std::array kTypes = {DataType::kInt32, DataType::kFloat16, DataType::kUint8, DataType::kFloat64};
  constexpr std::array<size_t, 5> kCounts = {0, 1, 7, 300, 30000};
  Call call;
  call.collective = plan.collective;
  if (plan.collective == Collective::kBarrier) return call;
  call.type = any_of(random, kTypes);
  call.count = any_of(random, kCounts);
  if (has_root(plan.collective)) call.root = plan.root;
  const bool averages = reduces(plan.collective) && has(call.type, ReduceOp::kAverage) && one_in(random, 2);
  call.op = averages ? ReduceOp::kAverage : ReduceOp::kSum;
  return call;
}

// Plans of all algorithms for ranks on these nodes.
std::vector<VerifiedPlan> plans_over(const std::vector<int>& node_of, Random& random) {
  std::vector<VerifiedPlan> plans;
  for (const Algorithm& algorithm : algorithms()) {
    for (const Collective collective : algorithm.collectives) {
      AlgorithmArguments machine;
      machine.collective = collective;
      machine.ranks = static_cast<int>(node_of.size());
      machine.node_of = node_of;
      machine.root = has_root(collective) ? static_cast<int>(random() % node_of.size()) : 0;
      for (const AlgorithmArguments& arguments : algorithm.candidates(machine)) {
        plans.push_back(verify(algorithm.make(arguments)));
      }
    }
  }
  return plans;
}

void expect_all_plans_right(const std::vector<int>& node_of, const MakeTransport& make) {
  Random random(run_seed());
  World world(node_of, make), one(node_of, nullptr);
  int count = 0;
  for (const VerifiedPlan& plan : plans_over(node_of, random)) {
    expect_same(world, one, plan, random_call(random, plan.plan()), random);
    if (::testing::Test::HasFailure()) return;
    ++count;
  }
  EXPECT_GT(count, 20);
}

TEST(Nodes, PlansGiveWhatTheyGiveOnOneNode) {
  for (const std::vector<int>& node_of :
       {std::vector{0, 1}, std::vector{0, 0, 1, 1}, std::vector{0, 1, 0, 1}, std::vector{0, 0, 0, 1, 2}}) {
    LateNetwork network(static_cast<int>(node_of.size()), run_seed());
    expect_all_plans_right(node_of, [&](int rank) { return network.end(rank); });
    if (HasFailure()) return;
  }
}

TEST(Nodes, ByUcx) {
  const auto make = [](int) { return open_transport({"libucp.so.0"}); };
  try {
    make(0);
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  expect_all_plans_right({0, 0, 1, 1}, make);
}

VerifiedPlan plan_over(const std::vector<int>& node_of, Collective collective) {
  AlgorithmArguments machine;
  machine.collective = collective;
  machine.ranks = static_cast<int>(node_of.size());
  machine.node_of = node_of;
  return verify(make_plan("ring", machine));
}

// A slot that is sent and written again at once.
TEST(Nodes, WhatWasSentIsNotOverwrittenUnderWay) {
  constexpr int kChunks = 8;
  PlanBuilder builder({.algorithm = "one_slot",
                       .collective = Collective::kBroadcast,
                       .ranks = 2,
                       .chunks_per_block = kChunks,
                       .node_of = {0, 1}});
  const QueueId sender = builder.add_queue(0, Engine::kCpu), receiver = builder.add_queue(1, Engine::kCpu);
  const Place slot = builder.take_scratch(0);
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    builder.copy(sender, slot, input_of(0), chunk);
    builder.send_receive(sender, slot, receiver, output_of(1), chunk);
    builder.copy(sender, output_of(0), input_of(0), chunk);
  }
  const VerifiedPlan plan = verify(builder.finish());
  Random random(run_seed());
  LateNetwork network(2, run_seed());
  World world({0, 1}, [&](int rank) { return network.end(rank); }), one({0, 1}, nullptr);
  expect_same(world, one, plan, {Collective::kBroadcast, DataType::kInt32, ReduceOp::kSum, 0, 20'000}, random);
}

TEST(Nodes, DifferentCallsAreFound) {
  const std::vector<int> node_of{0, 1};
  LateNetwork network(2, run_seed());
  World world(node_of, [&](int rank) { return network.end(rank); });
  const VerifiedPlan plan = plan_over(node_of, Collective::kAllReduce);
  Buffers inputs(2, std::vector<std::byte>(400)), outputs = inputs;
  std::vector<Outcome> outcomes(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      outcomes[rank] = outcome_of(
          [&](int it) {
            const Call call{Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, 50 + 10u * it};
            world.rank(it).run(bind(plan, call, it, limits(true)), call, inputs[it].data(), outputs[it].data());
          },
          rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  int mismatches = 0;
  for (const Outcome& outcome : outcomes) mismatches += outcome.code == ErrorCode::kMismatch;
  EXPECT_GE(mismatches, 1) << failures(outcomes);  // the other one may find the first one gone
  EXPECT_NE(failures(outcomes).find("50 int32"), std::string::npos) << failures(outcomes);
  EXPECT_NE(failures(outcomes).find("60 int32"), std::string::npos) << failures(outcomes);
}

TEST(Nodes, ARankThatNeverComesIsATimeout) {
  const std::vector<int> node_of{0, 1};
  LateNetwork network(2, run_seed());
  World world(node_of, [&](int rank) { return network.end(rank); }, 0.3);
  const VerifiedPlan plan = plan_over(node_of, Collective::kAllReduce);
  const Call call{Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, 50};
  std::vector<std::byte> input(200), output(200);
  const Outcome outcome = outcome_of(
      [&](int it) { world.rank(it).run(bind(plan, call, it, limits(true)), call, input.data(), output.data()); }, 0);
  EXPECT_EQ(objection(outcome, ErrorCode::kTimeout, {"receive", "rank 1"}), "");
}

}  // namespace
}  // namespace plait::test
