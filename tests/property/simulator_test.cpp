// Plans of every algorithm on random machines: no simulated run beats what the machine's links allow, and whatever it
// says of its time adds up. PLAIT_TEST_SEED repeats a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/error.hpp"
#include "model/link_load.hpp"
#include "model/plan_cost.hpp"
#include "model/simulator/critical_path.hpp"
#include "model/simulator/report.hpp"
#include "support/algorithm_plans.hpp"
#include "support/random_machine.hpp"
#include "support/seed.hpp"
#include "topology/topology.hpp"

namespace plait {
namespace {

using test::between;
using test::one_in;
using test::Random;
using test::random_costs;
using test::RandomMachine;

constexpr double kNoise = 1e-9;  // of sums

// ---- What a machine allows ----

// Bytes over all links into or out of a device, by which none of its bytes can be faster.
double gbps_at(const Topology& topology, int device) {
  double gbps = 0;
  for (const Link& link : topology.links) {
    if (link.a == device || link.b == device) gbps += link.gbps;
  }
  return gbps;
}

// The share of the message that has to reach or leave a rank, whatever the plan.
double share_through(const Plan& plan, int rank) {
  const double all = 1, others = (plan.rank_count() - 1.0) / plan.rank_count(), one = 1.0 / plan.rank_count();
  const bool is_root = rank == plan.root;
  switch (plan.collective) {
    case Collective::kAllReduce:
      return all;
    case Collective::kReduce:
    case Collective::kBroadcast:
      return all;  // the root gets it, or the others do; what the others give, they send
    case Collective::kReduceScatter:
      return one;
    case Collective::kAllGather:
      return others;
    case Collective::kGather:
    case Collective::kScatter:
      return is_root ? others : one;
    case Collective::kAllToAll:
      return others;
    case Collective::kBarrier:
      break;
  }
  return 0;
}

double physical_bound(const Plan& plan, const Topology& topology, const Placement& placement, double bytes) {
  double seconds = 0;
  for (int rank = 0; plan.rank_count() > 1 && rank < plan.rank_count(); ++rank) {
    const double gbps = gbps_at(topology, placement.device_of_rank[static_cast<size_t>(rank)]);
    seconds = std::max(seconds, bytes * share_through(plan, rank) / (gbps * 1e9));
  }
  return seconds;
}

// ---- Runs ----

struct Ran {
  SimulatorProgram program;
  SimulatedMachine machine;
  SimulatedRun run;
  CriticalPath path;
};

Ran run(const Plan& plan, Routes& routes, const Costs& costs, FlagPlace flags, double bytes) {
  SimulatorProgram program = compile(plan, check_form(plan), routes);
  SimulatedMachine machine(program, routes.topology(), costs, flags);
  SimulatedRun run = simulate(program, machine, bytes);
  CriticalPath path = critical_path(program, machine, run);
  return {std::move(program), std::move(machine), std::move(run), std::move(path)};
}

void expect_no_faster_than_links(const Plan& plan, Routes& routes, const Costs& costs, FlagPlace flags,
                                 const Ran& ran) {
  const double bytes = ran.run.bytes, least = ran.run.seconds * (1 + kNoise);
  const PlanModel model(plan, routes);
  EXPECT_GE(least, physical_bound(plan, routes.topology(), routes.placement(), bytes));
  EXPECT_GE(least, model.load().busiest_seconds * bytes);
  EXPECT_GE(least, model.curve(costs, flags).seconds(bytes));
  EXPECT_GE(least, costs.launch_seconds + bound_of(ran.machine, ran.run).seconds);
}

// The same bytes as the model counts, which finds them in another way.
void expect_all_bytes(const Plan& plan, Routes& routes, const Ran& ran) {
  const PlanModel model(plan, routes);
  double counted = 0, simulated = 0;
  for (const auto& directions : model.load().bytes) counted += directions[0] + directions[1];
  for (size_t i = 0; i < ran.run.uses.size(); ++i) {
    const SimulatedResource& it = ran.program.resources[i];
    if (it.kind != SimulatedResource::Kind::kLink) continue;
    const double bytes = model.load().bytes[static_cast<size_t>(it.index)][it.forward ? 0 : 1] * ran.run.bytes;
    EXPECT_NEAR(ran.run.uses[i].bytes, bytes, kNoise * bytes) << to_text(it, routes.topology());
    EXPECT_LE(ran.run.uses[i].busy_seconds, ran.run.seconds * (1 + kNoise));
    // Times end where rounding puts them, which a run of few bytes and much latency shows.
    EXPECT_GE(ran.run.uses[i].busy_seconds + kNoise * ran.run.seconds, bytes / ran.machine.bytes_per_second[i]);
    simulated += ran.run.uses[i].bytes;
  }
  EXPECT_NEAR(simulated, counted * ran.run.bytes, kNoise * simulated);
}

void expect_every_second_told(const Ran& ran) {
  const double noise = kNoise * ran.run.seconds;
  EXPECT_NEAR(std::accumulate(ran.path.seconds.begin(), ran.path.seconds.end(), 0.0), ran.run.seconds, noise);
  double now = 0;
  for (const CriticalPath::Piece& piece : ran.path.pieces) {
    EXPECT_NEAR(piece.from, now, noise);
    EXPECT_NEAR(std::accumulate(piece.seconds.begin(), piece.seconds.end(), 0.0), piece.to - piece.from, noise);
    for (const double seconds : piece.seconds) EXPECT_GE(seconds, 0);
    now = piece.to;
  }
  const double on_links = std::accumulate(ran.path.resource_seconds.begin(), ran.path.resource_seconds.end(), 0.0);
  const auto of = [&](Cause cause) { return ran.path.seconds[static_cast<size_t>(cause)]; };
  EXPECT_NEAR(on_links, of(Cause::kBandwidth) + of(Cause::kContention) + of(Cause::kSmallMessages), noise);
}

void expect_queues_in_order(const Ran& ran) {
  for (const SimulatedQueue& queue : ran.program.queues) {
    EXPECT_TRUE(std::is_sorted(ran.run.ends.begin() + static_cast<long>(queue.first),
                               ran.run.ends.begin() + static_cast<long>(queue.end)));
  }
}

std::vector<Plan> plans_on(Random& random, const AlgorithmArguments& machine) {
  std::vector<Plan> plans;
  for (const Algorithm& algorithm : algorithms()) {
    if (!serves(algorithm, machine.collective)) continue;
    const int parts = static_cast<int>(between(random, 2, 5));
    for (const AlgorithmArguments& form : test::forms_of(algorithm, machine, {1, parts})) {
      plans.push_back(algorithm.make(form));
    }
    for (const AlgorithmArguments& form : algorithm.candidates(machine)) plans.push_back(algorithm.make(form));
  }
  return plans;
}

TEST(Simulator, NoPlanBeatsTheLinksOfItsMachine) {
  const int machines = test::times_to_try(400);
  Random random(test::run_seed());
  int runs = 0;
  for (int i = 0; i < machines; ++i) {
    const Topology topology = RandomMachine(random).make();
    const Placement placement = place_ranks(topology, static_cast<int>(devices_of(topology, DeviceKind::kGpu).size()));
    Routes routes(topology, placement);
    const auto collective = static_cast<Collective>(between(random, 0, kCollectiveCount - 1));
    for (const Plan& plan : plans_on(random, arguments_for(topology, placement, collective))) {
      const Costs costs = random_costs(random);
      const FlagPlace flags = one_in(random, 2) ? FlagPlace::kBehindData : FlagPlace::kEvery8Bytes;
      const double bytes = collective == Collective::kBarrier ? 0 : static_cast<double>(1 << between(random, 0, 28));
      SCOPED_TRACE(join(plan.algorithm, " ", name(collective), " of ", bytes, " bytes on machine ", i, ", ",
                        plan.rank_count(), " ranks"));
      const Ran ran = run(plan, routes, costs, flags, bytes);
      expect_no_faster_than_links(plan, routes, costs, flags, ran);
      expect_all_bytes(plan, routes, ran);
      expect_every_second_told(ran);
      expect_queues_in_order(ran);
      EXPECT_EQ(simulate(ran.program, ran.machine, bytes).ends, ran.run.ends);
      if (HasFailure()) return;
      ++runs;
    }
  }
  EXPECT_GT(runs, machines);
}

}  // namespace
}  // namespace plait
