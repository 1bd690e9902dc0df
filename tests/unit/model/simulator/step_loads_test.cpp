// Which step a transfer belongs to, and what meets on a link in it.
#include "model/simulator/step_loads.hpp"

#include <gtest/gtest.h>

#include <map>

#include "algorithms/algorithm.hpp"
#include "model/simulator/report.hpp"
#include "topology/machines.hpp"

namespace plait {
namespace {

constexpr double kCallBytes = 64 << 20;

struct Loaded {
  Topology topology = machine("summit", 4);
  Placement placement = place_ranks(topology, 24);
  Routes routes{topology, placement};
  SimulatorProgram program;
  SimulatedMachine machine_of;
  SimulatedRun run;
  std::vector<StepLoad> loads;

  explicit Loaded(const Plan& plan)
      : program(compile(plan, check_form(plan), routes)),
        machine_of(program, topology, {}, FlagPlace::kBehindData, kCallBytes),
        run(simulate(program, machine_of, kCallBytes)),
        loads(step_loads(program, machine_of, run)) {}

  // Transfers of a step that leave a node by its adapters.
  int64_t leaving(size_t step) const {
    int64_t flows = 0;
    for (const StepLoad::Use& use : loads[step].uses) {
      const SimulatedResource& it = program.resources[use.resource];
      if (it.kind != SimulatedResource::Kind::kLink) continue;
      const Link& link = topology.links[static_cast<size_t>(it.index)];
      const Device& from = topology.devices[static_cast<size_t>(it.forward ? link.a : link.b)];
      if (link.kind == LinkKind::kNetwork && from.kind == DeviceKind::kNic) flows += use.flows;
    }
    return flows;
  }
};

AlgorithmArguments on_summit() {
  AlgorithmArguments arguments;
  arguments.collective = Collective::kAllReduce;
  arguments.ranks = 24;
  for (int rank = 0; rank < 24; ++rank) arguments.node_of.push_back(rank / 6);
  return arguments;
}

TEST(StepLoads, AddUpToWhatLinksCarryInAll) {
  for (const char* algorithm : {"recursive_doubling", "ring", "rabenseifner"}) {
    const Loaded it(find_algorithm(algorithm, Collective::kAllReduce).make(on_summit()));
    std::map<uint32_t, double> bytes;
    for (const StepLoad& load : it.loads) {
      EXPECT_LE(load.from, load.to) << algorithm;
      EXPECT_LE(load.to, it.run.seconds) << algorithm;
      for (const StepLoad::Use& use : load.uses) bytes[use.resource] += use.bytes;
    }
    for (const auto& [resource, total] : bytes) {
      EXPECT_NEAR(total, it.run.uses[resource].bytes, 1e-6 * total) << algorithm;
    }
    EXPECT_FALSE(bytes.empty());
  }
}

TEST(StepLoads, RingsHaveAStepForEachMessage) {
  const Loaded it(find_algorithm("ring", Collective::kAllReduce).make(on_summit()));
  size_t crossing = 0;
  for (size_t step = 0; step < it.loads.size(); ++step) {
    if (it.loads[step].uses.empty()) continue;
    EXPECT_EQ(it.leaving(step), 4) << step;  // one message leaves each of four nodes
    ++crossing;
  }
  EXPECT_EQ(crossing, 46u);  // 2 (p - 1)
}

TEST(StepLoads, DoublingOverNodesMeetsOnAdapters) {
  const Loaded it(find_algorithm("recursive_doubling", Collective::kAllReduce).make(on_summit()));
  int64_t most = 0, least = 100;
  for (size_t step = 0; step < it.loads.size(); ++step) {
    if (it.loads[step].uses.empty()) continue;
    most = std::max(most, it.leaving(step));
    least = std::min(least, it.leaving(step));
  }
  EXPECT_GE(most, 12);  // ranks and their partners are on different nodes, and all leave at once
  EXPECT_LT(least, most);
}

}  // namespace
}  // namespace plait
