// Plans of a caller's own: which are refused, what stands for them in calls, and that they are what is run.
#include "api/given_plan.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "api/communicator.hpp"
#include "api/plan_limits.hpp"
#include "plan/builder.hpp"
#include "plan/fingerprint.hpp"
#include "support/outcome.hpp"
#include "support/rank_threads.hpp"

namespace plait {
namespace {

using Given = std::shared_ptr<const VerifiedPlan>;
using test::require;

Given made(const std::string& algorithm, AlgorithmArguments arguments) {
  return std::make_shared<const VerifiedPlan>(verify(make_plan(algorithm, arguments)));
}

// Why it is refused; empty where it is not.
std::string refusal(const VerifiedPlan& plan, bool on_gpus, int ranks = 2) {
  const PlanLimits limits = on_gpus ? gpu_plan_limits() : host_plan_limits({});
  const test::Outcome outcome = test::outcome_of([&](int) { check_given(plan, ranks, limits, on_gpus); }, 0);
  if (outcome.well()) return "";
  EXPECT_EQ(outcome.code, ErrorCode::kInvalidArgument);
  return outcome.text;
}

void expect_says(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(GivenPlan, IsForTheRanksThatThereAre) {
  const Given plan = made("ring", {.ranks = 3});
  EXPECT_EQ(refusal(*plan, false, 3), "");
  expect_says(refusal(*plan, false, 4), {"plan ring is for 3 ranks, and this communicator has 4"});
  expect_says(refusal(*made("ring", {.ranks = 1}), false, 2), {"is for 1 rank, and"});
}

TEST(GivenPlan, OnlyGpusReadOtherRanksBuffers) {
  const Given plan = made("flat", {.collective = Collective::kAllGather, .ranks = 2, .access = Access::kZeroCopy});
  expect_says(refusal(*plan, false), {"has access zero_copy", "only GPUs", "access staged"});
  EXPECT_EQ(refusal(*plan, true), "");
}

TEST(GivenPlan, SpansNodesWhereTheyCanBeOne) {
  const Given plan = made("ring", {.ranks = 2, .engine = Engine::kSm, .node_of = {0, 1}});
  EXPECT_EQ(refusal(*plan, false), "");
  EXPECT_NE(refusal(*plan, true), "");
}

// A broadcast by a rank of so many queues, through so many slots of each kind.
VerifiedPlan broadcast(int queues, int scratch, int host, Engine engine = Engine::kSm) {
  PlanBuilder builder({"test", Collective::kBroadcast, 2, 0, queues});
  const Place in_scratch = builder.take_scratch(1, scratch);
  if (host > 0) builder.take_host(0, host);
  for (int queue = 0; queue < queues; ++queue) {
    const QueueId from = builder.add_queue(0, engine), to = builder.add_queue(1, engine);
    const Place slot = slot_after(in_scratch, queue);
    builder.copy(from, slot, input_of(0), queue);
    builder.copy(from, output_of(0), input_of(0), queue);
    builder.wait(builder.signal(from, to));
    builder.copy(to, output_of(1), slot, queue);
  }
  return verify(builder.finish());
}

TEST(GivenPlan, SaysWhatRanksPerform) {
  for (const bool on_gpus : {false, true}) EXPECT_EQ(refusal(broadcast(32, 32, 0), on_gpus), "");
  EXPECT_EQ(refusal(broadcast(4, 4, 1, Engine::kCpu), false), "");
  const std::string on_gpus =
      "on GPUs a rank has 1 to 32 queues, of engine sm, with at most 16384 operations, 16384 places";
  expect_says(refusal(broadcast(33, 33, 0), true),
              {"plan test cannot run here: rank 0 has 33 queues, more than 32", on_gpus});
  expect_says(refusal(broadcast(1, 1, 1), true), {"rank 0 has 1 slots in host memory, more than 0", on_gpus});
  expect_says(refusal(broadcast(1, 1, 0, Engine::kCpu), true), {"rank 0 has a queue of engine cpu", on_gpus});
  expect_says(refusal(broadcast(1, 1 << 20, 0), false), {"rank 1 has 1048576 slots, more than"});
  Plan twice = broadcast(1, 1, 0).plan();
  auto& operations = twice.ranks[0].queues[0].operations;
  operations.insert(operations.begin(), Operation(operations[0]));
  EXPECT_EQ(refusal(verify(twice), false), "");
  expect_says(refusal(verify(twice), true),
              {"rank 0 queue 0 operation 0, `reduce r1.scratch[0] <- r0.input : chunk 0`, "
               "stores at another rank what nobody reads",
               on_gpus});
  AlgorithmArguments many{.collective = Collective::kAllReduce, .ranks = 4, .engine = Engine::kSm};
  many.parts = 40;
  EXPECT_EQ(refusal(*made("ring", many), true, 4), "");
  many.parts = 200;
  expect_says(refusal(*made("ring", many), true, 4), {"signals, more than 1024", on_gpus});
}

TEST(GivenPlan, IsOfTheCallsCollective) {
  const Plan plan = made("binomial", {.collective = Collective::kReduce, .ranks = 3, .root = 2})->plan();
  EXPECT_NO_THROW(check_same_collective(plan, Collective::kReduce, 2));
  const auto text = [&](Collective collective, int root) {
    return test::outcome_of([&](int) { check_same_collective(plan, collective, root); }, 0).text;
  };
  expect_says(text(Collective::kReduce, 1), {"one of reduce, root 2, and the call one of reduce, root 1"});
  expect_says(text(Collective::kAllReduce, 0), {"and the call one of all_reduce"});
}

TEST(GivenPlan, NamesTheCall) {
  const Given plan = made("binomial", {.collective = Collective::kReduce, .ranks = 3, .root = 2});
  const Call call = call_by(*plan, DataType::kInt32, ReduceOp::kMax, 5);
  EXPECT_EQ(to_text(call), "reduce of 5 int32 (max), root 2, by plan " + fingerprint_text(plan->fingerprint()));
  const Given gather = made("flat", {.collective = Collective::kAllGather, .ranks = 3});
  EXPECT_EQ(call_by(*gather, DataType::kInt32, ReduceOp::kMax, 5),
            call_by(*gather, DataType::kInt32, ReduceOp::kSum, 5));
  const Given barrier = made("flat", {.collective = Collective::kBarrier, .ranks = 3});
  EXPECT_EQ(call_by(*barrier, DataType::kInt32, ReduceOp::kMax, 5).count, 0u);
}

// ---- Communicators.

TEST(GivenPlan, IsWhatACommunicatorRuns) {
  const Given ring = made("ring", {.ranks = 2}), flat = made("flat", {.ranks = 2});
  for (const test::Outcome& outcome : test::run_threads(2, {}, [&](Communicator& communicator) {
         for (const Given& plan : {ring, flat, ring}) {
           const int32_t mine = communicator.rank() + 1;
           int32_t sum = 0;
           communicator.run(plan, &mine, &sum, 1, DataType::kInt32);
           require(sum == 3, sum);
           const Call call = call_by(*plan, DataType::kInt32, ReduceOp::kSum, 1);
           require(communicator.plan_for(call).plan() == plan->plan(), "another plan");
           require(communicator.reason_for(call) == "given by the caller", communicator.reason_for(call));
         }
       })) {
    EXPECT_TRUE(outcome.well()) << describe(outcome);
  }
}

TEST(GivenPlan, HasToBeGivenFirst) {
  std::vector<Communicator> ranks = Communicator::in_process(1, {});
  const Given plan = made("flat", {.ranks = 1});
  const Call call = call_by(*plan, DataType::kInt32, ReduceOp::kSum, 1);
  EXPECT_FALSE(ranks[0].knows_plan(plan->fingerprint()));
  int32_t buffer[2] = {};
  const test::Outcome outcome = test::outcome_of([&](int) { ranks[0].run(call, buffer, buffer + 1); }, 0);
  EXPECT_EQ(test::objection(outcome, ErrorCode::kInvalidArgument, {fingerprint_text(plan->fingerprint()), "give it"}),
            "");
  ranks[0].give(plan);
  EXPECT_TRUE(ranks[0].knows_plan(plan->fingerprint()));
  EXPECT_NO_THROW(ranks[0].run(call, buffer, buffer + 1));
}

// More than a communicator keeps: what it has made of those that it forgets goes with them.
TEST(GivenPlan, ThousandsOneAfterTheOther) {
  std::vector<Communicator> ranks = Communicator::in_process(1, {});
  Plan plan = made("flat", {.ranks = 1})->plan();
  for (int number = 0; number < 1000; ++number) {
    plan.algorithm = join("plan ", number);
    const int32_t input = number;
    int32_t output = -1;
    ranks[0].run(std::make_shared<const VerifiedPlan>(verify(plan)), &input, &output, 1, DataType::kInt32);
    ASSERT_EQ(output, number);
  }
}

TEST(GivenPlan, IsNotInPlaceWhereItDoesNotSaySo) {
  Plan plan = made("flat", {.ranks = 1})->plan();
  plan.in_place = false;
  std::vector<Communicator> ranks = Communicator::in_process(1, {});
  const Given given = std::make_shared<const VerifiedPlan>(verify(plan));
  int32_t buffer[2] = {7, 0};
  EXPECT_NO_THROW(ranks[0].run(given, buffer, buffer + 1, 1, DataType::kInt32));
  const test::Outcome outcome =
      test::outcome_of([&](int) { ranks[0].run(given, buffer, buffer, 1, DataType::kInt32); }, 0);
  EXPECT_EQ(test::objection(outcome, ErrorCode::kInvalidArgument, {"rank 0, all_reduce of 1 int32", "never in place"}),
            "");
}

}  // namespace
}  // namespace plait
