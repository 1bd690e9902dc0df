// What `plait plan` shows is what a communicator runs, on every machine: topology, groups, choice and plan are one
// pipeline.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include "api/communicator.hpp"
#include "api/machine_plan.hpp"
#include "model/link_load.hpp"
#include "model/simulator/simulation.hpp"
#include "plan/form.hpp"
#include "support/seed.hpp"
#include "topology/machines.hpp"

namespace plait {
namespace {

constexpr size_t kSizes[] = {8, 64 << 10, 1 << 20, 16 << 20, size_t{1} << 30};

// Of as many bytes as the message of a table has.
Call call_of(Collective collective, size_t bytes, int ranks) {
  Call call{collective, DataType::kFloat32, ReduceOp::kSum, 0, bytes / sizeof(float)};
  if (has_rank_blocks(collective)) call.count = std::max<size_t>(1, call.count / static_cast<size_t>(ranks));
  if (collective == Collective::kBarrier) call.count = 0;
  return call;
}

double simulated(const PlanChoice& choice, const RankMachine& on, double bytes) {
  const Plan plan = find_algorithm(choice.algorithm, choice.arguments.collective).make(choice.arguments);
  Routes routes(on.topology, on.placement);
  const SimulatorProgram program = compile(plan, check_form(plan), routes);
  const SimulatedMachine machine(program, on.topology, on.profile->costs, FlagPlace::kBehindData, bytes);
  return simulate(program, machine, bytes).seconds;
}

// A unit test has no time for more.
constexpr int kMostRanks = test::kSanitized ? 4 : 16;

class OneChoice : public testing::TestWithParam<std::string> {};

TEST_P(OneChoice, OfPlanAndCommunicator) {
  const Topology topology = machine(GetParam());
  const auto gpus = static_cast<int>(devices_of(topology, DeviceKind::kGpu).size());
  if (gpus > kMostRanks) GTEST_SKIP() << "too many ranks for a unit test";
  Settings settings;
  settings.topology = GetParam();
  std::vector<Communicator> ranks = Communicator::in_process(gpus, settings);
  for (int c = 0; c < kCollectiveCount; ++c) {
    const auto collective = static_cast<Collective>(c);
    for (size_t i = 0; i < std::size(kSizes); i += test::kSanitized ? 3 : 1) {
      const size_t size = kSizes[i];
      const Call call = call_of(collective, size, gpus);
      MachinePlanRequest request;
      request.collective = collective;
      request.bytes = message_bytes(call, gpus);
      const MachinePlan shown = plan_for_machine(topology, request, {});
      EXPECT_EQ(ranks[0].plan_for(call).plan(), shown.plan->plan()) << name(collective) << " of " << size << " bytes";
      EXPECT_EQ(ranks[0].reason_for(call), shown.reason());
      if (collective == Collective::kBarrier) break;
    }
  }
}

// For large messages no plan with the best bound that there is among the algorithms is faster, unless a table says that
// another one was measured to be.
TEST_P(OneChoice, IsAsFastAsTheBestBoundForLongMessages) {
  const Topology topology = machine(GetParam());
  const auto gpus = static_cast<int>(devices_of(topology, DeviceKind::kGpu).size());
  if (gpus > kMostRanks) GTEST_SKIP() << "too many ranks for a unit test";
  const RankMachine on = place_on(topology, gpus, {});
  Tuner tuner(on, {}, {}, true);
  for (int c = 0; c < kCollectiveCount; ++c) {
    const auto collective = static_cast<Collective>(c);
    if (collective == Collective::kBarrier) continue;
    const Candidates all = find_candidates(on, {}, collective, 0);
    double best = all.all.front().bound_seconds_per_byte;
    for (const Candidate& it : all.all) best = std::min(best, it.bound_seconds_per_byte);
    constexpr size_t kBytes = size_t{1} << 30;
    const Choice choice = tuner.choose({collective, kBytes});
    if (choice.is_measured) continue;
    const double chosen = link_load(*tuner.plan(choice.plan), topology, on.placement).lower_bound(1);
    if (chosen <= best * 1.01) continue;
    const double seconds = simulated(choice.plan, on, kBytes);
    for (const Candidate& it : all.all) {
      if (it.protocol != Protocol::kSimple || it.bound_seconds_per_byte > best * 1.01) continue;
      EXPECT_LE(seconds, simulated(it.choice, on, kBytes) * 1.0011)
          << name(collective) << " as " << choice.plan.text() << ", " << it.choice.text();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, OneChoice, testing::ValuesIn(machine_names()), [](const auto& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace plait
