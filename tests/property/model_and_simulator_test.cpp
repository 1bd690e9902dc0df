// Compares the model with the simulator, for the plans that are chosen on all machines of the library.
// The model takes the busiest link, the busiest memory and the critical path each by itself. The simulator also has
// what happens between them: transfers on the critical path that wait for others (contention), and memory that no bytes
// over links hide. Apart from that they agree. GPUs' launches have costs of their own: here their plans are run once.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "api/machine_simulation.hpp"
#include "base/error.hpp"
#include "plan/form.hpp"
#include "support/seed.hpp"
#include "topology/machines.hpp"

namespace plait {
namespace {

constexpr double kNoise = 1e-9;       // of sums
constexpr double kTolerance = 0.005;  // of the curve between the sizes at which the model has its critical path

class ModelAndSimulator {
 public:
  ModelAndSimulator(const std::string& machine_name, Collective collective, size_t bytes,
                    const std::string& algorithm) {
    MachinePlanRequest request;
    request.collective = collective;
    request.algorithm = algorithm;
    request.bytes = bytes;
    const MachineSimulation made = simulate_on_machine(machine(machine_name), request, Settings());
    predicted = made.chosen.tuner->cost(made.chosen.choice).seconds(static_cast<double>(bytes));
    const auto found =
        made.launch.empty() ? std::pair(made.run, made.path) : run_once(made, static_cast<double>(bytes));
    simulated = found.first.seconds;
    for (const Cause it : {Cause::kContention, Cause::kSmallMessages, Cause::kReduction, Cause::kCopy}) {
      between += found.second.seconds[static_cast<size_t>(it)];
    }
    name = join(made.algorithm, ", ", plait::name(collective), " of ", bytes, " bytes on ", machine_name);
  }

  double predicted, simulated;
  double between = 0;  // what the model leaves out
  std::string name;

 private:
  // The plan of a launch, with the flags of its protocol.
  static std::pair<SimulatedRun, CriticalPath> run_once(const MachineSimulation& made, double bytes) {
    const Choice& choice = made.chosen.choice;
    const Plan& plan = made.chosen.tuner->plan(choice.plan)->plan();
    const FlagPlace flags = choice.launch.protocol == Protocol::kLl      ? FlagPlace::kEvery8Bytes
                            : choice.launch.protocol == Protocol::kLl128 ? FlagPlace::kEvery128Bytes
                                                                         : FlagPlace::kBehindData;
    Routes routes(made.topology(), made.ranks_on().placement);
    const SimulatorProgram program = compile(plan, check_form_of_any_size(plan), routes);
    const SimulatedMachine machine(program, made.topology(), made.ranks_on().profile->costs, flags, bytes);
    const SimulatedRun run = simulate(program, machine, bytes);
    return {run, critical_path(program, machine, run)};
  }
};

TEST(ModelAndSimulatorTest, DifferByContentionAndMemoryAlone) {
  test::Random random(test::run_seed());
  int equal = 0;
  for (const std::string& machine_name : machine_names()) {
    if (test::kSanitized && test::one_in(random, 2)) continue;
    for (int i = 0; i < kCollectiveCount; ++i) {
      const size_t bytes = size_t{1} << test::between(random, 0, 30);
      const ModelAndSimulator it(machine_name, static_cast<Collective>(i), bytes, "");
      EXPECT_GE(it.simulated * (1 + kNoise), it.predicted) << it.name;
      EXPECT_LE(it.simulated - it.between, it.predicted * (1 + kTolerance)) << it.name;
      equal += it.between < kTolerance * it.simulated;
    }
  }
  EXPECT_GT(equal, 0);
}

// By hand: kesch has two GPUs on a card, two cards below a switch, two switches below a socket. In each half of
// hierarchical_ring(2x2x2x2) a GPU exchanges 1/2 with the other of its card, then 1/4, 1/8 and 1/16, for which the four
// GPUs of a switch share its link to the socket. No step begins before the one before has ended everywhere, so the
// link idles while cards exchange; the model has it always busy.
TEST(ModelAndSimulatorTest, StepsOfKeschAddUp) {
  const double bytes = 1 << 30, bytes_per_second = 0.8 * 16e9;
  const ModelAndSimulator it("kesch", Collective::kAllReduce, 1 << 30, "hierarchical_ring(2x2x2x2)");
  const double on_cards = 2 * (1.0 / 2) * bytes / bytes_per_second;
  const double on_switches = 2 * 4 * (1.0 / 4 + 1.0 / 8 + 1.0 / 16) * bytes / bytes_per_second;
  EXPECT_NEAR(it.predicted, on_switches, 0.001 * on_switches);
  EXPECT_NEAR(it.simulated, on_cards + on_switches, 0.015 * (on_cards + on_switches));
}

}  // namespace
}  // namespace plait
