// Folded plans on random machines of equal nodes: what is simulated for a few ranks is what the whole plan does, step
// by step and link by link. And what is not symmetric is not folded. PLAIT_TEST_SEED repeats a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/folding.hpp"
#include "algorithms/spec.hpp"
#include "model/simulator/critical_path.hpp"
#include "model/simulator/report.hpp"
#include "support/algorithm_plans.hpp"
#include "support/random_machine.hpp"

namespace plait {
namespace {

using test::between;
using test::one_in;
using test::Random;
using test::random_costs;
using test::RandomMachine;

constexpr double kRounding = 1e-9;

struct Simulated {
  SimulatorProgram program;
  SimulatedMachine machine;
  SimulatedRun run;
  CriticalPath path;
};

Simulated simulated(SimulatorProgram program, const Topology& topology, const Costs& costs, double bytes) {
  SimulatedMachine machine(program, topology, costs, FlagPlace::kBehindData, bytes);
  SimulatedRun run = simulate(program, machine, bytes);
  CriticalPath path = critical_path(program, machine, run);
  return {std::move(program), std::move(machine), std::move(run), std::move(path)};
}

void expect_same_bytes(const Simulated& folded, const Simulated& whole) {
  std::map<SimulatedResource, double> bytes;
  for (size_t i = 0; i < whole.run.uses.size(); ++i) bytes[whole.program.resources[i]] = whole.run.uses[i].bytes;
  for (size_t i = 0; i < folded.run.uses.size(); ++i) {
    const double theirs = bytes.at(folded.program.resources[i]);
    EXPECT_NEAR(folded.run.uses[i].bytes, theirs, kRounding * theirs) << i;
  }
}

struct Difference {
  double share = 0;  // of the whole run's seconds
  std::string where = "nowhere";

  void add(double seconds, const Simulated& whole, const auto&... what) {
    const double found = std::abs(seconds) / whole.run.seconds;
    if (found > share) *this = {found, join(what...)};
  }
};

// The largest difference between times of a run of some ranks and those of the whole run.
Difference largest_difference(const Simulated& some, const Simulated& whole) {
  Difference largest;
  largest.add(some.run.seconds - whole.run.seconds, whole, "the end");
  std::map<std::pair<int, int>, SimulatedQueue> queues;
  for (const SimulatedQueue& it : whole.program.queues) queues[{it.rank, it.queue}] = it;
  for (const SimulatedQueue& mine : some.program.queues) {
    const SimulatedQueue& theirs = queues.at({mine.rank, mine.queue});
    EXPECT_EQ(mine.end - mine.first, theirs.end - theirs.first);
    for (size_t i = 0; i < mine.end - mine.first && !testing::Test::HasFailure(); ++i) {
      largest.add(some.run.ends[mine.first + i] - whole.run.ends[theirs.first + i], whole, "step ", i, " of queue ",
                  mine.queue, " of rank ", mine.rank);
    }
  }
  std::map<SimulatedResource, double> busy;
  for (size_t i = 0; i < whole.run.uses.size(); ++i) busy[whole.program.resources[i]] = whole.run.uses[i].busy_seconds;
  for (size_t i = 0; i < some.run.uses.size(); ++i) {
    largest.add(some.run.uses[i].busy_seconds - busy.at(some.program.resources[i]), whole, "use of resource ", i);
  }
  return largest;
}

// How much times of the whole run change where the message is longer by far less than a byte. Most runs hardly change.
// But a ring whose flows share links can double, with every step, what rounding has changed.
double unsteadiness(const SimulatorProgram& program, const Simulated& whole, const Topology& topology,
                    const Costs& costs) {
  double most = 0;
  for (const double more : {1e-14, 1e-13, 1e-12}) {
    const Simulated longer = simulated(program, topology, costs, whole.run.bytes * (1 + more));
    most = std::max(most, largest_difference(longer, whole).share);
  }
  return most;
}

// The first guess that is right, or the fold in which every rank stands for itself.
FoldedPlan folded_by_guess(const Algorithm& algorithm, const AlgorithmArguments& arguments, const Topology& topology,
                           const Placement& placement) {
  const int nodes = topology.nodes;
  for (const auto& digits : likely_shifts(arguments, nodes, topology.network.rack_nodes)) {
    try {
      const NodeShifts shifts(arguments.ranks, digits);
      const MachineSymmetry symmetry(topology, placement, shifts);
      return make_folded(algorithm, arguments, shifts);
    } catch (const NotSymmetric&) {
    }
  }
  return make_folded(algorithm, arguments, NodeShifts(arguments.ranks, {{nodes, true}}));
}

// Nodes as a product, of which the first factor may be the nodes of a rack.
std::vector<int> random_factors(Random& random) {
  const std::vector<std::vector<int>> all = {{2}, {3}, {4}, {2, 2}, {2, 3}, {3, 2}, {4, 2}, {2, 2, 2}, {8}};
  return all[static_cast<size_t>(between(random, 0, static_cast<int>(all.size()) - 1))];
}

Level random_level(Random& random, int factor) {
  const std::vector<const char*> names = {"ring", "flat", "rabenseifner", "recursive_doubling", "binomial", "chain"};
  Level level;
  level.factor = factor;
  level.algorithm = names[static_cast<size_t>(between(random, 0, one_in(random, 4) ? 5 : 3))];
  if (level.algorithm == "ring") level.parts = static_cast<int>(between(random, 1, 2));
  return level;
}

std::vector<std::pair<const Algorithm*, AlgorithmArguments>> all_forms(Random& random,
                                                                       const AlgorithmArguments& machine,
                                                                       const std::vector<int>& factors, int each) {
  std::vector<std::pair<const Algorithm*, AlgorithmArguments>> forms;
  for (const Algorithm& algorithm : algorithms()) {
    if (!serves(algorithm, machine.collective)) continue;
    for (const AlgorithmArguments& form : test::forms_of(algorithm, machine, {1, 2}))
      forms.emplace_back(&algorithm, form);
    if (!algorithm.uses.levels) continue;
    AlgorithmArguments form = machine;
    if (each > 1) form.levels.push_back(random_level(random, each));
    for (const int factor : factors) form.levels.push_back(random_level(random, factor));
    form.parts = static_cast<int>(between(random, 1, 2));
    if (test::is_taken(algorithm, form)) forms.emplace_back(&algorithm, form);
  }
  return forms;
}

TEST(Symmetry, FoldedRunsAreTheWholeOnes) {
  const int machines = test::times_to_try(150);
  Random random(test::run_seed());
  int folded_plans = 0, proved_plans = 0, unsteady_plans = 0;
  // Some machines have no symmetry: goes on until enough of them had one, which a few more machines must do.
  for (int i = 0; i < machines || folded_plans <= machines || proved_plans <= machines / 2; ++i) {
    ASSERT_LT(i, 4 * machines) << folded_plans << " folded plans, " << proved_plans << " of them proved";
    const std::vector<int> factors = random_factors(random);
    const int nodes = std::accumulate(factors.begin(), factors.end(), 1, std::multiplies<>());
    const Topology topology = RandomMachine(random).make(nodes, one_in(random, 2) ? factors[0] : 0);
    const int ranks = static_cast<int>(devices_of(topology, DeviceKind::kGpu).size());
    const Placement placement = place_ranks(topology, ranks);
    const auto collective = static_cast<Collective>(between(random, 0, kCollectiveCount - 1));
    const AlgorithmArguments arguments = arguments_for(topology, placement, collective);
    for (const auto& [algorithm, form] : all_forms(random, arguments, factors, ranks / nodes)) {
      const FoldedPlan folded = folded_by_guess(*algorithm, form, topology, placement);
      const NodeShifts& shifts = folded.fold.shifts();
      const MachineSymmetry symmetry(topology, placement, shifts);
      const Plan plan = algorithm->make(form);
      SCOPED_TRACE(
          join(plan.algorithm, " ", name(collective), " on machine ", i, ", ", ranks, " ranks, ", shifts.text()));
      const Costs costs = random_costs(random);
      const double bytes = collective == Collective::kBarrier ? 0 : static_cast<double>(1 << between(random, 0, 28));
      Routes routes(topology, placement);
      const SimulatorProgram program = compile(plan, check_form(plan), routes);
      const Simulated whole = simulated(program, topology, costs, bytes);
      const Simulated mine = simulated(compile(folded, symmetry, routes), topology, costs, bytes);
      expect_same_bytes(mine, whole);
      const Difference difference = largest_difference(mine, whole);
      if (difference.share > kRounding) {
        ++unsteady_plans;
        EXPECT_LE(difference.share, 10 * unsteadiness(program, whole, topology, costs)) << difference.where;
      }
      if (HasFailure()) return;
      folded_plans += shifts.shifts() > 1;
      try {
        const PlanReport proved = prove_folded(*algorithm, form, folded);
        const VerifiedPlan verified = verify(plan);
        EXPECT_EQ(proved.steps, verified.report().steps);
        EXPECT_EQ(proved.synchronizes, verified.report().synchronizes);
        EXPECT_EQ(proved.unread_store.has_value(), verified.report().unread_store.has_value());
        proved_plans += shifts.shifts() > 1;
      } catch (const NotSymmetric& error) {
        EXPECT_GT(shifts.shifts(), 1) << error.what();
      }
    }
  }
  EXPECT_LE(unsteady_plans, folded_plans / 50);
}

// Shifts of all nodes by one, or of the last digit alone.
NodeShifts some_shifts(Random& random, int ranks, const std::vector<int>& factors) {
  std::vector<NodeDigit> digits;
  for (const int factor : factors) digits.push_back({factor, one_in(random, 2)});
  digits.back().is_fixed = false;
  return NodeShifts(ranks, digits);
}

TEST(Symmetry, AMachineWithOneSlowLinkOrOtherDeviceIsNotSymmetric) {
  const int machines = test::times_to_try(300);
  Random random(test::run_seed());
  for (int i = 0; i < machines; ++i) {
    const std::vector<int> factors = random_factors(random);
    const int nodes = std::accumulate(factors.begin(), factors.end(), 1, std::multiplies<>());
    const int rack_nodes = factors.size() > 1 && one_in(random, 2) ? factors[0] : 0;
    Topology topology = RandomMachine(random).make(nodes, rack_nodes);
    const int ranks = static_cast<int>(devices_of(topology, DeviceKind::kGpu).size());
    const Placement placement = place_ranks(topology, ranks);
    const NodeShifts shifts = some_shifts(random, ranks, factors);
    EXPECT_NO_THROW(MachineSymmetry(topology, placement, shifts));
    Topology slow = topology;
    Link& link = slow.links[between(random, 0, slow.links.size() - 1)];
    link.gbps *= 0.99;
    EXPECT_THROW(MachineSymmetry(slow, placement, shifts), NotSymmetric)
        << slow.devices[static_cast<size_t>(link.a)].name;
    Topology other = topology;
    Device& device = other.devices[between(random, 0, static_cast<uint64_t>(ranks))];
    device.model = "another";
    EXPECT_THROW(MachineSymmetry(other, placement, shifts), NotSymmetric) << device.name;
    Topology lacking = topology;
    lacking.links.erase(lacking.links.begin() + static_cast<long>(between(random, 0, lacking.links.size() - 1)));
    EXPECT_THROW(MachineSymmetry(lacking, placement, shifts), NotSymmetric);
    if (HasFailure()) return;
  }
}

TEST(Symmetry, AMachineWithSeveralWaysOrAPartOfARackIsNotSymmetric) {
  Random random(test::run_seed());
  for (int i = 0; i < 20; ++i) {
    Topology topology = RandomMachine(random).make(4, 2);
    const int ranks = static_cast<int>(devices_of(topology, DeviceKind::kGpu).size());
    const Placement placement = place_ranks(topology, ranks);
    const NodeShifts shifts(ranks, {{2, false}, {2, false}});
    EXPECT_NO_THROW(MachineSymmetry(topology, placement, shifts));
    EXPECT_THROW(MachineSymmetry(topology, placement, NodeShifts(ranks, {{4, false}})), NotSymmetric);
    const std::vector<int> switches = devices_of(topology, DeviceKind::kNetSwitch);
    ASSERT_EQ(switches.size(), 3u);
    topology.add_link({switches[0], switches[1], LinkKind::kNetwork, 1, 10, ""});
    EXPECT_THROW(MachineSymmetry(topology, placement, shifts), NotSymmetric);
    const Topology partial = RandomMachine(random).make(3, 2);
    const int fewer = static_cast<int>(devices_of(partial, DeviceKind::kGpu).size());
    EXPECT_THROW(MachineSymmetry(partial, place_ranks(partial, fewer), NodeShifts(fewer, {{3, false}})), NotSymmetric);
  }
}

}  // namespace
}  // namespace plait
