// Tests what the log says of machines and calls. tests/python checks that it says so once a call, and nothing unasked.
#include "api/call_logger.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "algorithms/algorithm.hpp"
#include "api/plan_limits.hpp"
#include "support/gpu_choice.hpp"
#include "topology/machines.hpp"

namespace plait {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

RankMachine placed(const char* name, int nodes, int ranks) { return place_on(machine(name, nodes), ranks, {}); }

TEST(CallLogger, SaysWhatWasFound) {
  const std::string summit = found_text(placed("summit", 1, 6), {});
  EXPECT_TRUE(has(summit, "6 ranks on 6 GPUs (NVIDIA V100")) << summit;
  EXPECT_TRUE(has(summit, " of 1 host; NVLink joins ranks 0-2, 3-5; chosen for summit (")) << summit;
  EXPECT_TRUE(has(summit, ") with profile ")) << summit;

  Settings settings;
  settings.topology = "kesch:nodes=2";
  const std::string kesch = found_text(placed("kesch", 2, 8), settings);
  EXPECT_TRUE(has(kesch, "8 ranks on 8 of 32 GPUs (")) << kesch;
  EXPECT_TRUE(has(kesch, " of 2 hosts; NVLink joins no ranks; PLAIT_TOPOLOGY=kesch:nodes=2 has it be kesch ("))
      << kesch;

  Topology cpus = select(machine("summit"), {});
  const RankMachine on_cpus = place_on(cpus, 5, {});
  EXPECT_EQ(found_text(on_cpus, {}).find("5 ranks on 2 CPU sockets (IBM POWER9"), 0u) << found_text(on_cpus, {});
}

TEST(CallLogger, SaysHowACallOnHostMemoryRuns) {
  const Settings settings;
  Tuner tuner(place_on(select(machine("summit"), {}), 4, settings), settings, host_plan_limits(settings), false);
  const Call call{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 1000};
  const Choice choice = tuner.choose({call.collective, 4000, 0, call.type});
  const std::string text = host_call_text(tuner, call);
  EXPECT_EQ(text.find(choice.plan.text() + ", "), 0u) << text;
  EXPECT_TRUE(has(text, " queue")) << text;
  EXPECT_TRUE(has(text, ", predicted ")) << text;
  EXPECT_TRUE(text.ends_with("; " + choice.reason())) << text;
}

TEST(CallLogger, NamesThePlanThatTheCallerGave) {
  const Settings settings;
  Tuner tuner(place_on(select(machine("summit"), {}), 4, settings), settings, host_plan_limits(settings), false);
  AlgorithmArguments arguments;
  arguments.ranks = 4;
  Plan plan = make_plan("ring", arguments);
  plan.algorithm = "by hand";
  const auto given = std::make_shared<const VerifiedPlan>(verify(std::move(plan)));
  tuner.give(given);
  const std::string text = host_call_text(tuner, call_by(*given, DataType::kFloat32, ReduceOp::kSum, 1000));
  EXPECT_EQ(text.find("by hand, "), 0u) << text;
  EXPECT_TRUE(text.ends_with("; given by the caller")) << text;
}

TEST(CallLogger, SaysHowACallOnGpusRuns) {
  test::GpuQuery gpus;
  gpus.ranks = 4;
  Tuner tuner = test::tuner_for(gpus);
  const Call short_call{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 2};
  const std::string one = gpu_call_text(tuner, short_call, "1 channel, 1 CTA of 64 threads, LL");
  EXPECT_EQ(one.find("one_shot(store), 1 channel, 1 CTA of 64 threads, LL, predicted "), 0u) << one;

  const Call long_call{Collective::kAllGather, DataType::kFloat32, ReduceOp::kSum, 0, 64 << 20};
  const Choice choice = tuner.choose({long_call.collective, size_t{1} << 30, 0, long_call.type});
  ASSERT_TRUE(choice.zero_copy);
  const std::string two = gpu_call_text(tuner, long_call, choice.launch_text());
  EXPECT_EQ(two.find("flat(load, zero_copy, engine=copy), else flat(store"), 0u) << two;
  EXPECT_TRUE(has(two, ", copy engines, else ")) << two;
  EXPECT_FALSE(has(two, "predicted")) << two;  // the model knows plans, and not who maps whose buffers
  EXPECT_TRUE(two.ends_with("; " + choice.reason())) << two;
}

}  // namespace
}  // namespace plait
