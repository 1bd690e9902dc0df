// Simulations of machines.
#include "api/machine_simulation.hpp"

#include <utility>
#include <vector>

#include "algorithms/folding.hpp"
#include "api/chosen_launch.hpp"
#include "api/plan_limits.hpp"
#include "base/error.hpp"
#include "base/figures.hpp"
#include "model/simulator/report.hpp"
#include "model/simulator/trace.hpp"
#include "plan/conditions.hpp"
#include "plan/form.hpp"
#include "plan/proof_size.hpp"

namespace plait {
namespace {

// A flat ring over 2,048 ranks on nodes of four has 34 million.
constexpr int kMostSimulatedOperations = 64'000'000;
// Up to these bounds a proof takes a second or so.
constexpr double kShortProofBytes = 5e8, kShortMergedBytes = 2e9;
// A larger plan takes as much memory as all the rest.
constexpr size_t kMostKeptOperations = 2'000'000;

bool is_soon_proved(const Plan& plan) {
  const ProofSize size = proof_size(plan);
  return size.bytes <= kShortProofBytes && size.merged_bytes <= kShortMergedBytes;
}

Plan plan_of(const PlanChoice& choice, Tuner& tuner) {
  if (choice.given != 0) return tuner.plan(choice)->plan();
  AlgorithmArguments arguments = choice.arguments;
  arguments.most_operations = kMostSimulatedOperations;
  return find_algorithm(choice.algorithm, arguments.collective).make(arguments);
}

FlagPlace flags_of(const MachineChoice& chosen) {
  if (!chosen.tuner->machine().gpus || chosen.is_asked_for) return FlagPlace::kBehindData;
  return flags_of(chosen.choice.launch.protocol);
}

const Profile& profile_named(const std::string& name) {
  for (const Profile& it : profiles()) {
    if (it.name == name) return it;
  }
  fail(ErrorCode::kInvalidArgument, "there is no profile ", name, "; `plait.models.profile_names()` has all");
}

// Where a plan has fewer ranks, all of them are simulated in no time.
constexpr int kFewRanks = 256;

struct FoldedChoice {
  FoldedPlan plan;
  MachineSymmetry symmetry;
};

// Nothing where neither plan nor machine looks alike from several nodes; `why` then has what the last guess met with.
std::optional<FoldedChoice> folded(const MachineChoice& chosen, std::string& why) {
  const RankMachine& machine = chosen.tuner->machine();
  const PlanChoice& plan = chosen.choice.plan;
  if (plan.given != 0) return std::nullopt;
  const Topology& topology = machine.topology;
  for (const auto& digits : likely_shifts(plan.arguments, topology.nodes, topology.network.rack_nodes)) {
    try {
      const NodeShifts shifts(machine.ranks(), digits);
      MachineSymmetry symmetry(topology, machine.placement, shifts);
      const Algorithm& algorithm = find_algorithm(plan.algorithm, plan.arguments.collective);
      return FoldedChoice{make_folded(algorithm, plan.arguments, shifts), std::move(symmetry)};
    } catch (const NotSymmetric& error) {
      if (why.empty()) why = error.what();
    }
  }
  return std::nullopt;
}

// Up to so many operations a proof by symmetry takes a second or two.
constexpr size_t kMostSoonProvedOperations = 5'000'000;

enum class ProofEffort : uint8_t { kIfShort, kAlways };

// Rank by rank. Throws what verify() and plan_of() do.
bool is_proved_whole(const MachineChoice& chosen, size_t operations, ProofEffort effort) {
  if (effort == ProofEffort::kIfShort && operations > kMostKeptOperations) return false;
  Plan plan = plan_of(chosen.choice.plan, *chosen.tuner);
  if (effort == ProofEffort::kIfShort && !is_soon_proved(plan)) return false;
  verify(std::move(plan));
  return true;
}

// Proves the plan, by symmetry or else rank by rank, and returns whether it did. `why` says why a proof by symmetry was
// not possible, where it was tried. Throws if the plan has to be proved and is not.
bool is_proved(const MachineChoice& chosen, const FoldedPlan& folded, ProofEffort effort, std::string& why) {
  const size_t operations = folded.fold.operations();
  if (effort == ProofEffort::kIfShort && operations > kMostSoonProvedOperations) return false;
  const PlanChoice& plan = chosen.choice.plan;
  const int ranks = folded.plan.rank_count();
  try {
    prove_folded(find_algorithm(plan.algorithm, plan.arguments.collective), plan.arguments, folded);
    return true;
  } catch (const NotSymmetric& error) {
    why = error.what();
  }
  if (ranks > kMaxRanks && effort == ProofEffort::kAlways) {
    fail(ErrorCode::kInvalidArgument, "more than ", kMaxRanks, " ranks are proved by symmetry, and these ", ranks,
         " are not: ", why, "; simulate them without a proof, or fewer ranks");
  }
  if (ranks > kMaxRanks || !is_proved_whole(chosen, operations, effort)) return false;
  why.clear();
  return true;
}

// Runs a program that is compiled. What the plan is and how it was made is left to be said.
MachineSimulation run(MachineChoice chosen, SimulatorProgram program, FlagPlace flags, size_t bytes,
                      bool with_stretches) {
  const RankMachine& machine = chosen.tuner->machine();
  const auto message_bytes = static_cast<double>(bytes);
  SimulatedMachine simulated(program, machine.topology, machine.profile->costs, flags, message_bytes);
  SimulatedRun run = simulate(program, simulated, message_bytes, with_stretches);
  CriticalPath path = critical_path(program, simulated, run);
  return {std::move(chosen), std::move(program), std::move(simulated), std::move(run), std::move(path)};
}

size_t moved_bytes(Collective collective, size_t message_bytes) {
  return collective == Collective::kBarrier ? 0 : message_bytes;
}

MachineSimulation run_folded(MachineChoice chosen, const FoldedChoice& folded, size_t message_bytes) {
  const RankMachine& machine = chosen.tuner->machine();
  const Plan& plan = folded.plan.plan;
  Routes routes(machine.topology, machine.placement);
  SimulatorProgram program = compile(folded.plan, folded.symmetry, routes);
  const FlagPlace flags = flags_of(chosen);
  MachineSimulation made =
      run(std::move(chosen), std::move(program), flags, moved_bytes(plan.collective, message_bytes), false);
  made.algorithm = plan.algorithm;
  made.operations = folded.plan.fold.operations();
  made.shifts = folded.plan.fold.shifts();
  return made;
}

MachineSimulation run_whole(MachineChoice chosen, Plan plan, bool is_proved, size_t message_bytes) {
  const RankMachine& machine = chosen.tuner->machine();
  const auto operations = static_cast<size_t>(plan.operation_count());
  const size_t bytes = moved_bytes(plan.collective, message_bytes);
  Routes routes(machine.topology, machine.placement);
  SimulatorProgram program = compile(plan, check_form_of_any_size(plan), routes);
  const std::string algorithm = plan.algorithm;
  std::optional<Plan> kept;
  if (operations <= kMostKeptOperations) kept = std::move(plan);
  plan = {};
  const FlagPlace flags = flags_of(chosen);
  MachineSimulation made = run(std::move(chosen), std::move(program), flags, bytes, kept.has_value());
  made.plan = std::move(kept);
  made.algorithm = algorithm;
  made.operations = operations;
  made.is_proved = is_proved;
  return made;
}

// The time of each call in a row of calls, by simulating some.
double seconds_in_a_row(const ChosenLaunch& launch, const RankMachine& machine, size_t bytes, Routes& routes) {
  const SimulatorProgram program = compile_launch(launch.of(bytes, calls_in_a_row(bytes)), routes);
  const SimulatedMachine simulated(program, machine.topology, machine.profile->costs, launch.flags(),
                                   static_cast<double>(bytes));
  return seconds_between_calls(program, simulated, simulate(program, simulated, static_cast<double>(bytes)));
}

// The launch that GPUs perform; none where `why` says why there is none.
std::optional<ChosenLaunch> find_launch(const MachineChoice& chosen, const MachinePlanRequest& request,
                                        std::string& why) {
  why = why_no_launches(chosen.tuner->machine());
  if (why.empty() && moved_bytes(request.collective, request.bytes) == 0) why = "nothing is moved";
  if (!why.empty()) return std::nullopt;
  ChosenLaunch launch = launch_for(chosen, request);
  if (launch.zero_copy != nullptr) return launch;
  const auto excess = short_gpu_plan_limits().excess(*launch.plan);
  if (!excess) return launch;
  why = join("the simulator has no launches of long plans (", *excess, ")");
  return std::nullopt;
}

MachineSimulation run_launch(MachineChoice chosen, const ChosenLaunch& launch, size_t bytes) {
  const RankMachine& machine = chosen.tuner->machine();
  Routes routes(machine.topology, machine.placement);
  const double in_a_row = seconds_in_a_row(launch, machine, bytes, routes);
  MachineSimulation made =
      run(std::move(chosen), compile_launch(launch.of(bytes), routes), launch.flags(), bytes, true);
  made.plan = (launch.zero_copy ? launch.zero_copy : launch.plan)->plan();
  made.algorithm = made.plan->algorithm;
  made.operations = static_cast<size_t>(made.plan->operation_count());
  made.is_proved = true;
  made.launch = launch.text();
  made.seconds_in_a_row = in_a_row;
  return made;
}

// Names a plan that would be simulated instead, where there is one.
std::string instead_of(const MachineChoice& chosen) {
  const PlanChoice& plan = chosen.choice.plan;
  if (plan.arguments.collective != Collective::kAllReduce) return "";
  const RankMachine& machine = chosen.tuner->machine();
  const std::string levels = levels_of_rings(machine);
  return plan.text() == levels ? "" : join("simulate rings of rings, --algorithm '", levels, "', or ");
}

[[noreturn]] void refuse_whole(const MachineChoice& chosen, const std::string& why) {
  const int ranks = chosen.tuner->machine().ranks();
  fail(ErrorCode::kInvalidArgument, "plan ", chosen.choice.plan.text(), ": more than ", kMaxRanks,
       " ranks are simulated where they look alike, and these ", ranks, " do not", why.empty() ? "" : join(": ", why),
       "; ", instead_of(chosen), "let --extrapolate continue the times of fewer nodes, with an error");
}

// One rank a GPU, on the nodes that the plan has. Throws if these are others.
RankMachine place_for(const Topology& topology, const Plan& plan, const std::string& profile,
                      const Settings& settings) {
  RankMachine machine = place_on(topology, plan.rank_count(), settings);
  if (!profile.empty()) machine.profile = &profile_named(profile);
  std::vector<int> node_of = machine.base.node_of;
  node_of.resize(static_cast<size_t>(machine.ranks()));  // empty: one node
  if (plan.node_of == node_of) return machine;
  fail(ErrorCode::kInvalidArgument, "plan ", plan.algorithm, ": the ranks' nodes (node_of) are not those of ",
       topology.name);
}

MachineChoice choice_of(std::shared_ptr<const VerifiedPlan> plan, RankMachine machine, const Settings& settings) {
  const bool has_gpus = machine.gpus.has_value();
  MachineChoice chosen{
      std::make_shared<Tuner>(std::move(machine), settings, host_plan_limits(settings), has_gpus, &kSimulatedLaunches),
      {},
      true};
  PlanChoice& choice = chosen.choice.plan;
  choice.algorithm = plan->plan().algorithm;
  choice.arguments.access = plan->plan().access;
  choice.given = plan->fingerprint();
  choice.reason = "the plan was given";
  chosen.tuner->give(std::move(plan));
  return chosen;
}

}  // namespace

MachineSimulation simulate_on_machine(const Topology& topology, const MachinePlanRequest& request,
                                      const Settings& settings, const TunerProgress& progress, Folding folding,
                                      bool must_prove) {
  const int most_ranks = folding == Folding::kNever ? kMaxRanks : kMaxFoldedRanks;
  MachineChoice chosen = choose_for_machine(topology, request, settings, progress, most_ranks);
  const auto tell = [&](const std::string& what) {
    if (progress) progress(join(what, " ", chosen.choice.plan.text()));
  };
  std::string why_no_launch;
  if (const std::optional<ChosenLaunch> launch = find_launch(chosen, request, why_no_launch)) {
    tell("simulating");
    return run_launch(std::move(chosen), *launch, request.bytes);
  }
  tell("making");
  std::string why_whole;
  const int ranks = chosen.tuner->machine().ranks();
  if (folding == Folding::kAlways || (folding == Folding::kAuto && ranks > kFewRanks)) {
    if (const auto alike = folded(chosen, why_whole)) {
      std::string why_unproved;
      tell("proving");
      const ProofEffort effort = must_prove ? ProofEffort::kAlways : ProofEffort::kIfShort;
      const bool was_proved = is_proved(chosen, alike->plan, effort, why_unproved);
      tell("simulating");
      MachineSimulation made = run_folded(std::move(chosen), *alike, request.bytes);
      made.is_proved = was_proved;
      made.why_unproved = std::move(why_unproved);
      made.why_no_launch = std::move(why_no_launch);
      return made;
    }
  }
  if (ranks > kMaxRanks) refuse_whole(chosen, why_whole);
  Plan plan = plan_of(chosen.choice.plan, *chosen.tuner);
  const bool is_proved = must_prove || is_soon_proved(plan);
  if (is_proved) plan = verify(std::move(plan)).plan();
  tell("simulating");
  MachineSimulation made = run_whole(std::move(chosen), std::move(plan), is_proved, request.bytes);
  made.why_whole = std::move(why_whole);
  made.why_no_launch = std::move(why_no_launch);
  return made;
}

MachineSimulation simulate_on_machine(const Topology& topology, std::shared_ptr<const VerifiedPlan> plan,
                                      size_t message_bytes, const std::string& profile, const Settings& settings) {
  const Plan& given = plan->plan();
  MachineChoice chosen = choice_of(plan, place_for(topology, given, profile, settings), settings);
  MachinePlanRequest request;
  request.collective = given.collective;
  request.root = given.root;
  request.bytes = message_bytes;
  std::string why_no_launch;
  if (const std::optional<ChosenLaunch> launch = find_launch(chosen, request, why_no_launch)) {
    return run_launch(std::move(chosen), *launch, message_bytes);
  }
  MachineSimulation made = run_whole(std::move(chosen), given, true, message_bytes);
  made.why_no_launch = std::move(why_no_launch);
  return made;
}

std::string MachineSimulation::describe_launch() const {
  if (!ranks_on().gpus) return "";
  if (launch.empty()) return join("launch   one run of the plan, not in slices: ", why_no_launch, "\n");
  return join("launch   ", launch, "\nin a row ", seconds_text(seconds_in_a_row),
              " a call, of several that follow each other in a graph\n");
}

std::string MachineSimulation::describe() const {
  return describe_launch() + describe_run(program, machine, run, path, topology());
}

std::string MachineSimulation::describe_links() const { return describe_uses(program, machine, run, topology()); }

std::string MachineSimulation::trace() const {
  if (!plan) {
    fail(ErrorCode::kInvalidArgument, "trace: a run of ", counted(operations, "operation"),
         " is too long for one; simulate fewer "
         "ranks, or another algorithm");
  }
  return trace_of(*plan, program, machine, run, path, topology(), ranks_on().placement);
}

}  // namespace plait
