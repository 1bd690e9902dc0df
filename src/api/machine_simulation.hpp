// Simulates how long a collective should take on a machine. `plait simulate` shows this.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "api/machine_plan.hpp"
#include "base/settings.hpp"
#include "model/simulator/critical_path.hpp"
#include "model/simulator/program.hpp"
#include "model/simulator/simulation.hpp"

namespace plait {

struct MachineSimulation {
  MachineChoice chosen;
  SimulatorProgram program;
  SimulatedMachine machine;
  SimulatedRun run;
  CriticalPath path;
  // The plan that runs. None where it is so large that it was let go once it was compiled.
  std::optional<Plan> plan = {};
  std::string algorithm = {};
  size_t operations = 0;
  bool is_proved = false;  // else its form was checked, which is what a plan's cost by the model rests on as well
  std::string why_unproved = {};  // why a proof by symmetry was tried and was not possible
  // Where ranks that look alike were simulated once (plan/fold.hpp): the shifts. Program and run are those of the ranks
  // that stand for all, `plan` is not there.
  std::optional<NodeShifts> shifts = {};
  std::string why_whole = {};  // why that was tried and was not possible
  // Where a launch on GPUs was simulated slice by slice: the launch in words, and the time of one call among several
  // that follow each other in a graph, as benchmarks measure it.
  std::string launch = {};
  double seconds_in_a_row = 0;
  // Elsewhere the reason; one run of the plan was simulated.
  std::string why_no_launch = {};

  const RankMachine& ranks_on() const { return chosen.tuner->machine(); }
  const Topology& topology() const { return ranks_on().topology; }
  // Describes what GPUs launch, in a line or two. Empty where ranks are on CPUs.
  std::string describe_launch() const;
  // The same, and a table: time and bound, the critical path by cause, and the links that it is spent on.
  std::string describe() const;
  // Each link that carries anything: bytes and time by direction.
  std::string describe_links() const;
  // model/simulator/trace.hpp; throws kInvalidArgument where the run is too long for one.
  std::string trace() const;
};

// Whether ranks that look alike are simulated once, where plan and machine are the same under shifts of the nodes. The
// figures are those of the whole plan. Up to 131,072 ranks may then take part.
enum class Folding : uint8_t {
  kAuto,  // of more than 256 ranks
  kNever,
  kAlways,  // of any number
};

// Chooses as plan_for_machine() does, unless an algorithm is asked for, and simulates the plan for a message of
// `request.bytes`. Plans whose proof takes long are proved if `must_prove`. Throws what choose_for_machine() does,
// PlanTooLarge where the plan has more than 64 million operations, and if `must_prove` what verify() does, and
// kInvalidArgument where more than 16,384 ranks cannot be proved by symmetry.
MachineSimulation simulate_on_machine(const Topology& topology, const MachinePlanRequest& request,
                                      const Settings& settings, const TunerProgress& progress = {},
                                      Folding folding = Folding::kAuto, bool must_prove = false);
// Simulates a plan that somebody wrote, its ranks placed as any others: one a GPU. The costs are of the profile of that
// name; empty: of the one that fits. Throws as above, and kInvalidArgument where the plan's nodes are not those of the
// ranks, and where Plait has no such profile.
MachineSimulation simulate_on_machine(const Topology& topology, std::shared_ptr<const VerifiedPlan> plan,
                                      size_t message_bytes, const std::string& profile, const Settings& settings);

}  // namespace plait
