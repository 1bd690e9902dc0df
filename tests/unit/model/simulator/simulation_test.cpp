// Simulated runs of small plans whose times can be told by hand.
#include "model/simulator/simulation.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.hpp"
#include "model/simulator/critical_path.hpp"
#include "model/simulator/report.hpp"
#include "property/plan_zoo.hpp"
#include "support/add_device.hpp"
#include "topology/machines.hpp"

namespace plait {
namespace {

constexpr double kGigabyte = 1e9;
constexpr double kLaunch = 5e-6, kOperation = 1e-6, kSignal = 2e-6;

// Between neighbours a gigabyte takes 0.1 s.
constexpr double kNvlinkGbps = 10;

// GPUs in a row, each joined to the next by NVLink.
Topology row_of_gpus(int gpus) {
  Topology topology;
  topology.name = "row";
  const int cpu = test::add_device(topology, DeviceKind::kCpu, "cpu0");
  for (int i = 0; i < gpus; ++i) {
    const int gpu = test::add_device(topology, DeviceKind::kGpu, join("gpu", i));
    topology.add_link({cpu, gpu, LinkKind::kPcie, 1, 1, ""});
    if (i > 0) topology.add_link({gpu - 1, gpu, LinkKind::kNvlink, 1, kNvlinkGbps, ""});
  }
  return topology;
}

Costs costs_of_steps() {
  Costs costs;
  costs.launch_seconds = kLaunch;
  costs.operation_seconds = kOperation;
  costs.signal_seconds[static_cast<size_t>(LinkKind::kNvlink)] = kSignal;
  return costs;
}

struct Simulated {
  Topology topology;
  Placement placement;
  Routes routes;
  SimulatorProgram program;
  SimulatedMachine machine;
  SimulatedRun run;
  CriticalPath path;

  Simulated(Topology on, const Plan& plan, const Costs& costs, double bytes)
      : topology(std::move(on)),
        placement(place_ranks(topology, plan.rank_count())),
        routes(topology, placement),
        program(compile(plan, check_form(plan), routes)),
        machine(program, topology, costs, FlagPlace::kBehindData, bytes),
        run(simulate(program, machine, bytes, true)),
        path(critical_path(program, machine, run)) {}

  double of(Cause cause) const { return path.seconds[static_cast<size_t>(cause)]; }
};

TEST(Simulation, AddsUpLaunchOperationsBytesAndSignals) {
  const Simulated it(row_of_gpus(2), test::chain_broadcast(2, 0, 1), costs_of_steps(), kGigabyte);
  // The root copies and signals; the other hears that and copies to its output, in memory that costs nothing.
  EXPECT_NEAR(it.run.seconds, kLaunch + 3 * kOperation + kSignal + 0.1, 1e-12);
  EXPECT_NEAR(it.of(Cause::kLaunch), kLaunch, 1e-15);
  EXPECT_NEAR(it.of(Cause::kLatency), 3 * kOperation + kSignal, 1e-12);
  EXPECT_NEAR(it.of(Cause::kBandwidth), 0.1, 1e-12);
  EXPECT_NEAR(bound_of(it.machine, it.run).seconds, 0.1, 1e-12);
}

TEST(Simulation, ChunksOfAChainOverlap) {
  constexpr int kChunks = 50, kHops = 3;
  const Simulated it(row_of_gpus(kHops + 1), test::chain_broadcast(kHops + 1, 0, kChunks), Costs{}, kGigabyte);
  // The last chunk follows all others over the first link, and goes alone over the rest.
  EXPECT_NEAR(it.run.seconds, 0.1 * (kChunks + kHops - 1) / kChunks, 1e-9);
  EXPECT_EQ(it.of(Cause::kContention), 0);
}

TEST(Simulation, FewBytesGetLessOfALink) {
  Costs costs;
  costs.half_bytes[static_cast<size_t>(LinkKind::kNvlink)] = 1e6;
  const Simulated few(row_of_gpus(2), test::chain_broadcast(2, 0, 1), costs, 1e6);
  EXPECT_NEAR(few.run.seconds, 2e-4, 1e-12);
  EXPECT_NEAR(few.of(Cause::kBandwidth), 1e-4, 1e-12);
  EXPECT_NEAR(few.of(Cause::kSmallMessages), 1e-4, 1e-12);
  const Simulated many(row_of_gpus(2), test::chain_broadcast(2, 0, 1), costs, 1e9);
  EXPECT_NEAR(many.run.seconds, 0.1 * 1.001, 1e-9);
  // Each of ten chunks pays again.
  const Simulated cut(row_of_gpus(2), test::chain_broadcast(2, 0, 10), costs, 1e6);
  EXPECT_NEAR(cut.run.seconds, 1e-4 + 10 * 1e-4, 1e-12);
}

// The first megabyte that a rank reads and writes is in its cache.
TEST(Simulation, FewBytesAreInCaches) {
  Costs costs;
  costs.memory_gbps = 1;
  costs.cache_gbps = 4;
  costs.cache_bytes = 1e6;
  const Plan plan = test::chain_broadcast(2, 0, 1);
  const Simulated few(row_of_gpus(2), plan, costs, 1e5), many(row_of_gpus(2), plan, costs, 1e8);
  int memories = 0;
  for (size_t i = 0; i < few.program.resources.size(); ++i) {
    if (few.program.resources[i].kind != SimulatedResource::Kind::kMemory) continue;
    ++memories;
    EXPECT_NEAR(few.machine.bytes_per_second[i], 4e9, 1);
    const double bytes = many.run.uses[i].bytes;
    EXPECT_NEAR(bytes / many.machine.bytes_per_second[i], 1e6 / 4e9 + (bytes - 1e6) / 1e9, 1e-9);
  }
  EXPECT_EQ(memories, 2);
  costs.cache_bytes = 0;
  EXPECT_GT(Simulated(row_of_gpus(2), plan, costs, 1e5).run.seconds, few.run.seconds);
}

TEST(Simulation, CombiningCostsMoreThanCopying) {
  Costs costs;
  costs.memory_gbps = 0.001;  // nothing else counts
  const auto seconds = [&](const Plan& plan) { return Simulated(row_of_gpus(2), plan, costs, 1e6).run.seconds; };
  const Plan copies = test::chain_broadcast(2, 0, 1), combines = test::ring_all_reduce(2);
  const double copied = seconds(copies), combined = seconds(combines);
  costs.combine_share = 3;
  EXPECT_EQ(seconds(copies), copied);
  EXPECT_GT(seconds(combines), 1.2 * combined);
  EXPECT_LT(seconds(combines), 3 * combined);
}

// Two queues of the root store half of the message each, over one link.
TEST(Simulation, QueuesShareALinkAndThePathSaysSo) {
  PlanBuilder b({"two queues", Collective::kBroadcast, 2, 0, 2, Access::kZeroCopy});
  for (int chunk = 0; chunk < 2; ++chunk) {
    const QueueId from = b.add_queue(0, Engine::kSm), to = b.add_queue(1, Engine::kSm);
    b.copy(from, output_of(1), input_of(0), chunk);
    b.copy(from, output_of(0), input_of(0), chunk);
    b.wait(b.signal(from, to));
  }
  const Simulated it(row_of_gpus(2), b.finish(), Costs{}, kGigabyte);
  EXPECT_NEAR(it.run.seconds, 0.1, 1e-9);
  EXPECT_NEAR(it.of(Cause::kBandwidth), 0.05, 1e-9);
  EXPECT_NEAR(it.of(Cause::kContention), 0.05, 1e-9);
  ASSERT_EQ(it.path.resource_seconds.size(), it.program.resources.size());
  EXPECT_NEAR(std::accumulate(it.path.resource_seconds.begin(), it.path.resource_seconds.end(), 0.0), 0.1, 1e-9);
}

TEST(Simulation, DirectionsOfALinkAreSeparate) {
  const Simulated it(row_of_gpus(2), test::swap_all_reduce(4), Costs{}, kGigabyte);
  EXPECT_NEAR(it.run.seconds, 0.1, 1e-9);
  EXPECT_EQ(it.of(Cause::kContention), 0);
}

// What is combined after all has arrived is hidden behind nothing.
TEST(Simulation, ReductionThatNothingHidesIsOnThePath) {
  Costs costs;
  costs.memory_gbps = 30;
  const Simulated it(row_of_gpus(2), test::one_shot_all_reduce(2), costs, kGigabyte);
  // Each rank stores its input to itself and to its peer, and combines two sources into one output.
  EXPECT_NEAR(it.run.seconds, 0.1 + 3.0 / 30, 1e-9);
  EXPECT_NEAR(it.of(Cause::kBandwidth), 0.1, 1e-9);
  EXPECT_NEAR(it.of(Cause::kReduction), 0.1, 1e-9);

  costs.memory_gbps = 10;  // now stores wait for memory as well
  const Simulated slow(row_of_gpus(2), test::one_shot_all_reduce(2), costs, kGigabyte);
  EXPECT_NEAR(slow.run.seconds, 0.3 + 0.3, 1e-9);
  EXPECT_NEAR(slow.of(Cause::kCopy), 0.2, 1e-9);
  EXPECT_NEAR(slow.of(Cause::kReduction), 0.3, 1e-9);
}

TEST(Simulation, MessagesBetweenNodesLeaveWhenTheReceiverHasCome) {
  PlanBuilder b({"message", Collective::kBroadcast, 2, 0, 1, Access::kStaged, {0, 1}});
  const QueueId from = b.add_queue(0, Engine::kNet), to = b.add_queue(1, Engine::kNet);
  b.send_receive(from, input_of(0), to, output_of(1), 0);
  Costs costs;
  costs.operation_seconds = kOperation;
  costs.signal_seconds[static_cast<size_t>(LinkKind::kNetwork)] = kSignal;
  Topology topology = machine("abci", 2);
  topology = select(topology, {device_named(topology, "n0.gpu0"), device_named(topology, "n1.gpu0")});
  const Simulated it(std::move(topology), b.finish(), costs, kGigabyte);
  // Both begin, and the request is heard.
  EXPECT_NEAR(it.run.seconds, kOperation + kSignal + bound_of(it.machine, it.run).seconds, 1e-12);
  EXPECT_EQ(it.program.resources[bound_of(it.machine, it.run).resource].kind, SimulatedResource::Kind::kLink);
}

TEST(Simulation, BusyStretchesAddUpToBusySeconds) {
  const Simulated it(row_of_gpus(4), test::ring_all_reduce(4), costs_of_steps(), kGigabyte);
  std::vector<double> seconds(it.program.resources.size());
  for (const SimulatedRun::Stretch& stretch : it.run.busy) seconds[stretch.resource] += stretch.to - stretch.from;
  for (size_t i = 0; i < seconds.size(); ++i) EXPECT_NEAR(seconds[i], it.run.uses[i].busy_seconds, 1e-9);
}

TEST(Simulation, QueuesSpendTheirTimeMovingOrWaiting) {
  const Simulated it(row_of_gpus(4), test::ring_all_reduce(4), costs_of_steps(), kGigabyte);
  const std::vector<QueueTime> queues = queue_times(it.program, it.run);
  ASSERT_EQ(queues.size(), 4u);
  for (const QueueTime& queue : queues) {
    EXPECT_LE(queue.end + kLaunch, it.run.seconds + 1e-12);
    EXPECT_GT(queue.waiting, 0);
    EXPECT_LE(queue.moving + queue.waiting, queue.end);
  }
}

TEST(Simulation, AMessageOfNoBytesTakesItsSteps) {
  const Simulated it(row_of_gpus(2), test::chain_broadcast(2, 0, 1), costs_of_steps(), 0);
  EXPECT_NEAR(it.run.seconds, kLaunch + 3 * kOperation + kSignal, 1e-12);
  EXPECT_EQ(bound_of(it.machine, it.run).seconds, 0);
}

TEST(Simulation, SaysWhichQueueWaitsForEver) {
  PlanBuilder b({"deadlock", Collective::kBarrier, 2});
  const QueueId one = b.add_queue(0, Engine::kCpu), other = b.add_queue(1, Engine::kCpu);
  b.wait(b.signal(one, other));
  b.wait(b.signal(other, one));
  Plan plan = b.finish();
  std::swap(plan.ranks[0].queues[0].operations[0], plan.ranks[0].queues[0].operations[1]);  // now both wait first
  try {
    const Simulated it(row_of_gpus(2), plan, Costs{}, 0);
    ADD_FAILURE() << "it ended after " << it.run.seconds;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    EXPECT_NE(std::string(error.what()).find("queue 0 of rank 0 waits for ever"), std::string::npos) << error.what();
  }
}

TEST(Simulation, RefusesRanksThatArePlacedElsewhere) {
  const Topology topology = row_of_gpus(3);
  const Placement placement = place_ranks(topology, 3);
  Routes routes(topology, placement);
  const Plan plan = test::chain_broadcast(2, 0, 1);
  EXPECT_THROW(compile(plan, check_form(plan), routes), Error);
}

// A run that may be given up takes as long, or is given up.
TEST(Simulation, IsGivenUpOnlyWhereItTakesLonger) {
  const Simulated whole(row_of_gpus(4), test::ring_all_reduce(4), costs_of_steps(), kGigabyte);
  const double seconds = whole.run.seconds;
  for (const double most : {seconds, seconds * 1.5, seconds * 100}) {
    EXPECT_EQ(seconds_within(whole.program, whole.machine, kGigabyte, most), seconds) << most;
  }
  for (const double share : {0.0, 0.1, 0.5, 0.99}) {
    EXPECT_FALSE(seconds_within(whole.program, whole.machine, kGigabyte, seconds * share)) << share;
  }
}

}  // namespace
}  // namespace plait
