// Plans for machines.
#include "api/machine_plan.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "algorithms/steps/arguments.hpp"
#include "api/chosen_launch.hpp"
#include "api/plan_limits.hpp"
#include "base/error.hpp"
#include "plan/conditions.hpp"
#include "plan/fold.hpp"
#include "plan/one_node.hpp"
#include "plan/shape.hpp"
#include "tuner/explain.hpp"

namespace plait {
namespace {

constexpr const char* kSimulateMore = "; `plait simulate` takes more, where they look alike";

// The plan that was asked for by name.
PlanChoice asked_for(const RankMachine& machine, const MachinePlanRequest& request) {
  AlgorithmSpec spec = parse_spec(request.algorithm, request.collective);
  if (spec.factors.empty()) spec.factors = request.factors;
  if (spec.parts == 0) spec.parts = request.parts;
  spec.zero_copy |= request.access == Access::kZeroCopy;
  AlgorithmArguments arguments = machine.arguments(request.collective, request.root);
  arguments.access = spec.zero_copy ? Access::kZeroCopy : Access::kStaged;
  const AlgorithmSpec checked = parse_spec(to_text(spec), request.collective);  // which refuses what it does not use
  return {spec.name, resolve(checked, arguments), join("asked for as '", request.algorithm, "'")};
}

// An all-reduce of more ranks than the model compares plans for.
PlanChoice rings_of_rings(const RankMachine& machine, const MachinePlanRequest& request) {
  MachinePlanRequest named = request;
  named.algorithm = levels_of_rings(machine);
  PlanChoice choice = asked_for(machine, named);
  choice.reason = join("rings within nodes, and rings of rings: of more than ", kMaxRanks,
                       " ranks no others are compared; --algorithm names them");
  return choice;
}

void check(const Topology& topology, const MachinePlanRequest& request, int gpus, int most_ranks) {
  if (request.ranks < 1 && gpus == 0) {
    fail(ErrorCode::kInvalidArgument, "the machine \"", topology.name,
         "\" has no GPUs, so say how many ranks its CPUs shall have (--ranks N)");
  }
  const int ranks = request.ranks < 1 ? gpus : request.ranks;
  if (ranks > most_ranks) {
    fail(ErrorCode::kInvalidArgument, "a plan has at most ", most_ranks, " ranks, not ", ranks,
         "; use fewer nodes, or --ranks N", ranks <= kMaxFoldedRanks ? kSimulateMore : "");
  }
  if (ranks > kMaxRanks && request.algorithm.empty() && request.collective != Collective::kAllReduce) {
    fail(ErrorCode::kInvalidArgument, "plans of ", name(request.collective), " for more than ", kMaxRanks,
         " ranks are not chosen by themselves, and there would be ", ranks, "; ",
         has_root(request.collective)
             ? "a root is not like the others, so no plan of it can be folded: name an algorithm and let "
               "--extrapolate continue the times of fewer nodes, or use fewer nodes"
             : "name an algorithm whose nodes look alike (docs/large_machines.md), such as "
               "--algorithm 'hierarchical(node: ring, all: ring)'");
  }
  check_no_vain_root(request.collective, request.root);
  const bool names_arguments = !request.factors.empty() || request.parts != 0 || request.access != Access::kStaged;
  if (request.algorithm.empty() && names_arguments) {
    fail(ErrorCode::kInvalidArgument, "factors, parts and access are for an algorithm; name one (--algorithm NAME)");
  }
}

// Tells for each row whether GPUs run it.
class OnGpus {
 public:
  OnGpus(Tuner& tuner, const Settings& settings) : tuner_(tuner), settings_(settings) {}

  PlannedRange checked(ChoiceRange range, const Query& query) {
    PlannedRange made{std::move(range), "", false, ""};
    if (!tuner_.machine().gpus) return made;
    made.lacking_on_gpus = has_other_gpus() ? "NVIDIA's GPUs" : lacking_for(made.choice);
    if (made.lacking_on_gpus.empty() || !is_for_gpus()) return made;
    made.is_staged = made.choice.is_forced;
    made.on_gpus = instead(query, made);
    return made;
  }

 private:
  bool has_other_gpus() const {
    const RankMachine& machine = tuner_.machine();
    const auto gpu = static_cast<size_t>(machine.placement.device_of_rank[0]);
    return machine.topology.devices[gpu].model.find("AMD") != std::string::npos;
  }

  // Whether GPUs run anything over these ranks.
  bool is_for_gpus() const {
    const RankMachine& machine = tuner_.machine();
    return !has_other_gpus() && machine.ranks() <= kMostGpuRanks && on_one_node(machine.base);
  }

  std::string lacking_for(const Choice& choice) {
    const std::string lacking = lacking_for(*tuner_.plan(choice.plan), choice);
    return lacking.empty() && choice.ending ? lacking_for(*tuner_.plan(*choice.ending), choice) : lacking;
  }

  static std::string lacking_for(const VerifiedPlan& plan, const Choice& choice) {
    if (spans_nodes(plan.plan())) return "messages between nodes";
    if (plan.plan().rank_count() > kMostGpuRanks) return join("more than ", kMostGpuRanks, " ranks");
    // The model alone chooses no long plan; a measured or forced choice may be one.
    const bool may_be_long = choice.is_measured || choice.is_forced;
    const auto excess = (may_be_long ? gpu_plan_limits() : short_gpu_plan_limits()).excess(plan);
    return excess ? join("more than a launch has (", *excess, ")") : "";
  }

  // Names the plans that GPUs run in place of the row's, at both of its ends.
  std::string instead(Query query, const PlannedRange& row) {
    if (row.choice.is_measured || row.choice.is_forced) return "";  // GPUs would insist on it
    if (!tuner_of_gpus_)
      tuner_of_gpus_.emplace(tuner_.machine(), settings_, short_gpu_plan_limits(), true, &kSimulatedLaunches);
    try {
      query.bytes = row.from;
      const std::string first = tuner_of_gpus_->choose(query).plan.text();
      query.bytes = row.to;
      const std::string last = tuner_of_gpus_->choose(query).plan.text();
      return first == last ? first : join(first, ", then ", last);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidArgument) throw;  // that there is none
      return "";
    }
  }

  Tuner& tuner_;
  const Settings& settings_;
  std::optional<Tuner> tuner_of_gpus_;
};

// A tuner tells what it does for as long as this object lives.
class Reporting {
 public:
  Reporting(Tuner& tuner, const TunerProgress& progress) : tuner_(tuner) { tuner.report_to(progress); }
  ~Reporting() { tuner_.report_to({}); }
  Reporting(const Reporting&) = delete;
  Reporting& operator=(const Reporting&) = delete;

 private:
  Tuner& tuner_;
};

}  // namespace

std::string levels_of_rings(const RankMachine& machine) {
  constexpr int kMostUnits = 32;
  const int nodes = machine.topology.nodes, rack_nodes = machine.topology.network.rack_nodes;
  int left = nodes;
  std::string levels = machine.ranks() > nodes ? "node: ring, " : "";
  const auto add = [&](int factor) {
    levels += join(factor, ": ring, ");
    left /= factor;
  };
  if (rack_nodes > 1 && rack_nodes < nodes && nodes % rack_nodes == 0) add(rack_nodes);
  while (left > kMostUnits) {
    int factor = kMostUnits;
    while (left % factor != 0) --factor;
    if (factor == 1) break;
    add(factor);
  }
  return join("hierarchical(", levels, "all: ring)");
}

std::vector<LeftOut> MachinePlan::left_out() const {
  const auto by_model = [](const PlannedRange& it) { return !it.choice.is_forced && !it.choice.is_measured; };
  if (std::none_of(ranges.begin(), ranges.end(), by_model)) return {};
  return tuner->candidates(plan->plan().collective, plan->plan().root).left_out;
}

std::string MachinePlan::launch() const {
  const auto shown = std::find_if(ranges.begin(), ranges.end(), [&](const PlannedRange& it) {
    return it.choice.plan.text() == choice.plan.text() && it.lacking_on_gpus.empty();
  });
  return machine().gpus && shown != ranges.end() ? choice.launch_text() : "";
}

std::string MachinePlan::explain(size_t message_bytes, const TunerProgress& progress) const {
  const Reporting reporting(*tuner, progress);
  return plait::explain(*tuner, {choice, is_asked_for, message_bytes});
}

MachineChoice choose_for_machine(const Topology& topology, const MachinePlanRequest& request, const Settings& settings,
                                 const TunerProgress& progress, int most_ranks) {
  const auto gpus = static_cast<int>(devices_of(topology, DeviceKind::kGpu).size());
  check(topology, request, gpus, most_ranks);
  RankMachine machine = place_on(topology, request.ranks < 1 ? gpus : request.ranks, settings);
  if (has_root(request.collective) && request.root >= machine.ranks()) {
    fail(ErrorCode::kInvalidArgument, "root ", request.root, " does not exist; ranks are 0..", machine.ranks() - 1);
  }
  const bool has_gpus = machine.gpus.has_value();
  MachineChoice made{
      std::make_shared<Tuner>(std::move(machine), settings, host_plan_limits(settings), has_gpus, &kSimulatedLaunches),
      {},
      false};
  if (!request.algorithm.empty()) {
    made.choice.plan = asked_for(made.tuner->machine(), request);
    made.is_asked_for = true;
    return made;
  }
  if (made.tuner->machine().ranks() > kMaxRanks) {
    made.choice.plan = rings_of_rings(made.tuner->machine(), request);
    return made;
  }
  const Reporting reporting(*made.tuner, progress);
  const bool is_long = request.bytes == 0 && request.collective != Collective::kBarrier;
  made.choice = made.tuner->choose({request.collective, is_long ? kLongMessage : request.bytes, request.root});
  return made;
}

MachinePlan plan_for_machine(const Topology& topology, const MachinePlanRequest& request, const Settings& settings,
                             const TunerProgress& progress) {
  auto [tuner, choice, is_asked_for] = choose_for_machine(topology, request, settings, progress);
  const Reporting reporting(*tuner, progress);
  std::vector<PlannedRange> ranges;
  if (!is_asked_for) {
    OnGpus on_gpus(*tuner, settings);
    const Query query{request.collective, request.bytes, request.root};
    for (ChoiceRange& range : tuner->ranges(query, kLongMessage)) {
      ranges.push_back(on_gpus.checked(std::move(range), query));
    }
  }
  std::shared_ptr<const VerifiedPlan> plan = tuner->plan(choice.plan);
  return {tuner, std::move(plan), std::move(choice), is_asked_for, std::move(ranges)};
}

}  // namespace plait
