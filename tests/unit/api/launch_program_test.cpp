// Launches that are simulated: they carry what their plans do, never beat a link, and take longer for every cost.
// PLAIT_TEST_SEED repeats a run.
#include "api/launch_program.hpp"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "api/chosen_launch.hpp"
#include "api/machine_simulation.hpp"
#include "api/plan_prediction.hpp"
#include "base/error.hpp"
#include "model/simulator/critical_path.hpp"
#include "model/simulator/report.hpp"
#include "plan/form.hpp"
#include "support/seed.hpp"
#include "topology/machines.hpp"

namespace plait {
namespace {

using test::any_of;
using test::between;
using test::one_in;
using test::Random;

constexpr double kRounding = 1e-9;  // of sums

struct LaunchCase {
  MachinePlanRequest request;
  std::string shape;
};

const std::vector<std::pair<Collective, std::vector<std::string>>> kPlans = {
    {Collective::kAllReduce,
     {"one_shot(store)", "one_shot(store, parts=2)", "flat(store)", "flat(store, parts=2)", "ring",
      "flat(load, zero_copy, engine=copy)", "flat(load, zero_copy, engine=sm)"}},
    {Collective::kBroadcast, {"one_shot(store)", "flat(store)", "chain(store, parts=2)"}},
    {Collective::kReduce, {"one_shot(store)", "chain(store, parts=2)", "flat(store)"}},
    {Collective::kAllGather, {"flat(store)", "flat(store, parts=2)", "flat(load, zero_copy, engine=copy)"}},
    {Collective::kReduceScatter, {"flat(store)", "flat(store, parts=2)"}},
    {Collective::kAllToAll, {"flat(store)", "flat(load, zero_copy, engine=sm)"}},
    {Collective::kGather, {"flat(store)"}},
    {Collective::kScatter, {"flat(store)"}},
};

LaunchCase random_case(Random& random) {
  LaunchCase made;
  const auto& [collective, algorithms] = any_of(random, kPlans);
  made.request.collective = collective;
  made.request.algorithm = any_of(random, algorithms);
  made.request.ranks = static_cast<int>(between(random, 2, 4));
  made.request.bytes = size_t{between(random, 1, 1 << 10)} << between(random, 2, 18);
  if (has_root(collective)) made.request.root = static_cast<int>(between(random, 0, made.request.ranks - 1));
  static const std::vector<std::string> protocols = {"Simple", "LL", "LL128"};
  made.shape = join(any_of(random, protocols), ":", between(random, 1, 64), "x", 32 * between(random, 2, 16));
  if (made.shape.starts_with("Simple") && one_in(random, 3)) made.shape += "+4:8%";
  return made;
}

KernelCosts random_kernel_costs(Random& random) {
  const auto up_to = [&](double most) {
    return one_in(random, 3) ? 0 : most * static_cast<double>(between(random, 1, 100)) / 100;
  };
  KernelCosts costs;
  for (double* seconds :
       {&costs.call_seconds, &costs.operation_seconds, &costs.wait_seconds, &costs.fence_seconds, &costs.signal_seconds,
        &costs.local_signal_seconds, &costs.ll_words_seconds, &costs.ll_signal_seconds, &costs.ll128_words_seconds,
        &costs.ll128_signal_seconds, &costs.host_fence_seconds, &costs.host_signal_seconds, &costs.barrier_seconds,
        &costs.barrier_signal_seconds, &costs.copy_seconds, &costs.pdl_seconds}) {
    *seconds = up_to(5e-6);
  }
  costs.stagger_seconds = up_to(1e-7);
  for (double* efficiency :
       {&costs.store_efficiency, &costs.load_efficiency, &costs.copy_efficiency, &costs.host_efficiency}) {
    *efficiency = static_cast<double>(between(random, 50, 100)) / 100;
  }
  costs.request_share = up_to(0.3);
  costs.cta_gbps = up_to(200);
  costs.memory_gbps = up_to(4000);
  costs.half_bytes = static_cast<double>(between(random, 0, 1 << 16));
  return costs;
}

// A launch on an HGX node.
class SimulatedCase {
 public:
  explicit SimulatedCase(const LaunchCase& of)
      : chosen_(choose_for_machine(machine("hgx-h100-8"), of.request, {})),
        bytes_(of.request.bytes),
        launch_(launch_for(chosen_, of.request, of.shape, false)),
        routes_(on().topology, on().placement) {}

  const RankMachine& on() const { return chosen_.tuner->machine(); }
  const ChosenLaunch& launch() const { return launch_; }
  const Plan& plan() const { return (launch_.zero_copy ? launch_.zero_copy : launch_.plan)->plan(); }
  SimulatorProgram compiled(int calls = 1) { return compile_launch(launch_.of(bytes_, calls), routes_); }
  SimulatorProgram whole_plan() { return compile(plan(), check_form_of_any_size(plan()), routes_); }
  SimulatedMachine with(const SimulatorProgram& program, const KernelCosts& kernels) const {
    Costs costs;
    costs.kernels = kernels;
    return {program, on().topology, costs, launch_.flags(), static_cast<double>(bytes_)};
  }
  double bytes() const { return static_cast<double>(bytes_); }

 private:
  MachineChoice chosen_;
  size_t bytes_;
  ChosenLaunch launch_;
  Routes routes_;
};

// By link and direction.
std::map<SimulatedResource, double> bytes_over_links(const SimulatorProgram& program, const SimulatedRun& run) {
  std::map<SimulatedResource, double> bytes;
  for (size_t i = 0; i < program.resources.size(); ++i) {
    const bool is_link = program.resources[i].kind == SimulatedResource::Kind::kLink;
    if (is_link && run.uses[i].bytes > 0) bytes[program.resources[i]] += run.uses[i].bytes;
  }
  return bytes;
}

// Chunks of a slice differ by the alignment of their first bytes, and flags take their part.
TEST(LaunchProgram, CarriesWhatThePlanDoes) {
  Random random(test::run_seed());
  for (int i = 0; i < test::times_to_try(100); ++i) {
    LaunchCase tried = random_case(random);
    tried.shape = tried.shape.substr(0, tried.shape.find('+'));
    tried.request.bytes = size_t{between(random, 4, 64)} << 20;
    SCOPED_TRACE(join(name(tried.request.collective), " ", tried.request.algorithm, " ", tried.request.ranks,
                      " ranks, ", tried.request.bytes, " bytes, ", tried.shape));
    SimulatedCase it(tried);
    const SimulatorProgram program = it.compiled(), whole = it.whole_plan();
    const auto run = simulate(program, it.with(program, {}), it.bytes());
    const auto all = simulate(whole, {whole, it.on().topology, {}, FlagPlace::kBehindData, it.bytes()}, it.bytes());
    const auto carried = bytes_over_links(program, run), planned = bytes_over_links(whole, all);
    const Protocol protocol = it.launch().zero_copy ? Protocol::kSimple : it.launch().shape.protocol;
    const double with_flags = protocol == Protocol::kLl ? 2 : protocol == Protocol::kLl128 ? 128.0 / 120 : 1;
    ASSERT_EQ(carried.size(), planned.size());
    for (const auto& [link, bytes] : planned) {
      EXPECT_NEAR(carried.at(link), bytes * with_flags, bytes * with_flags * 0.06);
    }
  }
}

TEST(LaunchProgram, NoRunBeatsTheLinksAndTimesAddUp) {
  Random random(test::run_seed());
  for (int i = 0; i < test::times_to_try(100); ++i) {
    const LaunchCase tried = random_case(random);
    SCOPED_TRACE(join(name(tried.request.collective), " ", tried.request.algorithm, " ", tried.request.ranks,
                      " ranks, ", tried.request.bytes, " bytes, ", tried.shape));
    SimulatedCase it(tried);
    const SimulatorProgram program = it.compiled();
    const SimulatedMachine machine = it.with(program, random_kernel_costs(random));
    const SimulatedRun run = simulate(program, machine, it.bytes());
    EXPECT_GE(run.seconds, bound_of(machine, run).seconds * (1 - kRounding));
    const CriticalPath path = critical_path(program, machine, run);
    EXPECT_NEAR(std::accumulate(path.seconds.begin(), path.seconds.end(), 0.0), run.seconds, run.seconds * kRounding);
    for (const double seconds : path.seconds) EXPECT_GE(seconds, -run.seconds * kRounding);
    // Calls in a row fill pipelines, and no link carries more than it can.
    const SimulatorProgram row = it.compiled(6);
    const SimulatedMachine of_row = it.with(row, random_kernel_costs(random));
    const SimulatedRun six = simulate(row, of_row, it.bytes());
    EXPECT_GT(seconds_between_calls(row, of_row, six), 0);
    EXPECT_GE(six.seconds, bound_of(of_row, six).seconds * (1 - kRounding));
  }
}

// With no cost but that of links, a long message keeps the busiest of them busy.
TEST(LaunchProgram, LongMessagesFillLinks) {
  for (const char* algorithm : {"one_shot(store, parts=2)", "flat(store, parts=2)", "ring"}) {
    LaunchCase tried;
    tried.request.algorithm = algorithm;
    tried.request.ranks = 2;
    tried.request.bytes = size_t{1} << 30;
    tried.shape = "Simple:64x512";
    SimulatedCase it(tried);
    const SimulatorProgram program = it.compiled();
    const SimulatedMachine machine = it.with(program, {});
    const SimulatedRun run = simulate(program, machine, it.bytes());
    EXPECT_LT(run.seconds, bound_of(machine, run).seconds * 1.05) << algorithm;
  }
}

// Of a long message straight between buffers, with these costs alone.
double seconds_between_buffers(Collective collective, const char* algorithm, int ranks, const KernelCosts& kernels) {
  LaunchCase tried;
  tried.request.collective = collective;
  tried.request.algorithm = algorithm;
  tried.request.ranks = ranks;
  tried.request.bytes = size_t{1} << 30;
  tried.request.access = Access::kZeroCopy;
  tried.shape = "Simple:64x512";
  SimulatedCase it(tried);
  const SimulatorProgram program = it.compiled();
  return simulate(program, it.with(program, kernels), it.bytes()).seconds;
}

// Requests of loads meet the data of others where links carry data both ways.
TEST(LaunchProgram, RequestsTakeOfTheWayBack) {
  KernelCosts requests;
  requests.request_share = 0.2;
  for (const char* algorithm : {"flat(load, engine=sm)", "flat(load, engine=copy)"}) {
    for (const int ranks : {2, 4}) {
      const auto slower = [&](Collective collective) {
        return seconds_between_buffers(collective, algorithm, ranks, requests) /
               seconds_between_buffers(collective, algorithm, ranks, {});
      };
      EXPECT_NEAR(slower(Collective::kAllGather), 1.2, 1e-3) << algorithm << ", " << ranks;
      EXPECT_NEAR(slower(Collective::kGather), 1, 1e-3) << algorithm << ", " << ranks;
    }
  }
}

// Loads lose what stores do where several GPUs load from several.
TEST(LaunchProgram, SpreadLoadsAreSlower) {
  KernelCosts spread;
  spread.spread_efficiency = 0.8;
  const auto slower = [&](Collective collective, const char* algorithm, int ranks) {
    return seconds_between_buffers(collective, algorithm, ranks, spread) /
           seconds_between_buffers(collective, algorithm, ranks, {});
  };
  EXPECT_NEAR(slower(Collective::kAllGather, "flat(load, engine=sm)", 4), 1.25, 1e-3);
  EXPECT_NEAR(slower(Collective::kAllGather, "flat(load, engine=sm)", 2), 1, 1e-3);
  EXPECT_NEAR(slower(Collective::kAllGather, "flat(load, engine=copy)", 4), 1, 1e-3);
  EXPECT_NEAR(slower(Collective::kGather, "flat(load, engine=sm)", 4), 1, 1e-3);
  EXPECT_NEAR(slower(Collective::kScatter, "flat(load, engine=sm)", 4), 1, 1e-3);
}

TEST(LaunchProgram, TakesAsLongAsTheHostLaunches) {
  LaunchCase tried;
  tried.request.algorithm = "one_shot(store)";
  tried.request.ranks = 2;
  tried.request.bytes = 1 << 16;
  const auto seconds_of = [&](const CallsInARow& calls, const KernelCosts& kernels) {
    Costs costs;
    costs.kernels = kernels;
    const PlanPrediction prediction(machine("hgx-h100-8"), tried.request, "LL:64x256", calls);
    EXPECT_TRUE(prediction.is_launch());
    return prediction.seconds(costs, static_cast<double>(tried.request.bytes));
  };
  KernelCosts kernels;
  kernels.call_seconds = 2e-6;
  const double in_graph = seconds_of({}, kernels);
  EXPECT_GT(in_graph, 2e-6);
  kernels.pdl_seconds = 3e-6;
  EXPECT_DOUBLE_EQ(seconds_of({}, kernels), in_graph);
  EXPECT_NEAR(seconds_of({.have_pdl = false}, kernels), in_graph + 3e-6, 1e-9);
  kernels.launched_seconds = 1e-6;
  EXPECT_NEAR(seconds_of({.by_host = true}, kernels), in_graph + 1e-6, 1e-9);
  kernels.host_seconds = 1e-3;
  EXPECT_DOUBLE_EQ(seconds_of({.by_host = true}, kernels), 1e-3);
}

// A profile that says nothing of kernels leaves simulations as they were.
TEST(LaunchProgram, NeedsCostsOfKernels) {
  LaunchCase tried;
  tried.request.algorithm = "flat(store)";
  SimulatedCase it(tried);
  const SimulatorProgram program = it.compiled();
  EXPECT_THROW(SimulatedMachine(program, it.on().topology, {}, FlagPlace::kBehindData), Error);
  const MachineSimulation made = simulate_on_machine(machine("dgx1-v100"), tried.request, {});
  EXPECT_EQ(made.launch, "");
  EXPECT_EQ(made.seconds_in_a_row, 0);
  EXPECT_FALSE(made.program.is_launch());
}

}  // namespace
}  // namespace plait
