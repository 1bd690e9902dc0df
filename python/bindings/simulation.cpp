// Simulated runs of plans.
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>

#include "api/extrapolation.hpp"
#include "api/machine_simulation.hpp"
#include "api/plan_prediction.hpp"
#include "base/error.hpp"
#include "base/figures.hpp"
#include "bindings/bindings.hpp"
#include "bindings/plan_arguments.hpp"
#include "model/simulator/report.hpp"
#include "model/simulator/step_loads.hpp"

namespace plait::python {
namespace {

Folding parse_folding(const std::string& text) {
  if (text == "auto") return Folding::kAuto;
  if (text == "never") return Folding::kNever;
  if (text == "always") return Folding::kAlways;
  fail(ErrorCode::kInvalidArgument, "folding '", text, "'; it is auto, never or always");
}

MachineSimulation make(const Topology& topology, const std::string& collective, size_t message_bytes,
                       const std::string& algorithm, int ranks, int root, const std::vector<int>& factors, int parts,
                       const std::string& access, const std::string& folding, bool prove, const Settings* settings,
                       const nb::object& progress) {
  const TunerProgress tell = teller(progress);
  const nb::gil_scoped_release release;
  return simulate_on_machine(
      topology,
      {parse_collective(collective), algorithm, ranks, root, factors, parts, parse_access(access), message_bytes},
      settings != nullptr ? *settings : Settings{}, tell, parse_folding(folding), prove);
}

MachineSimulation make_of_plan(const Topology& topology, const VerifiedPlan& plan, size_t message_bytes,
                               const std::string& profile, const Settings* settings) {
  const nb::gil_scoped_release release;
  return simulate_on_machine(topology, std::make_shared<const VerifiedPlan>(plan), message_bytes, profile,
                             settings != nullptr ? *settings : Settings{});
}

nb::dict causes_of(const MachineSimulation& made) {
  nb::dict causes;
  for (int cause = 0; cause < kCauseCount; ++cause) {
    std::string key = name(static_cast<Cause>(cause));
    std::replace(key.begin(), key.end(), ' ', '_');
    causes[key.c_str()] = made.path.seconds[cause];
  }
  return causes;
}

// JSON has no infinity.
nb::object gbps_or_none(double bytes_per_second) {
  return std::isfinite(bytes_per_second) ? nb::object(nb::float_(bytes_per_second * 1e-9)) : nb::none();
}

nb::list link_rows(const MachineSimulation& made) {
  nb::list rows;
  for (size_t i = 0; i < made.program.resources.size(); ++i) {
    if (made.run.uses[i].bytes <= 0) continue;
    nb::dict row;
    row["name"] = to_text(made.program.resources[i], made.topology());
    row["kind"] = kind_of(made.program.resources[i], made.topology());
    row["bytes"] = made.run.uses[i].bytes;
    row["gbps"] = gbps_or_none(made.machine.bytes_per_second[i]);
    row["busy_seconds"] = made.run.uses[i].busy_seconds;
    row["most_flows"] = made.run.uses[i].most_flows;
    row["critical_seconds"] = made.path.resource_seconds[i];
    rows.append(row);
  }
  return rows;
}

nb::list queue_rows(const MachineSimulation& made) {
  nb::list rows;
  for (const QueueTime& it : queue_times(made.program, made.run)) {
    nb::dict row;
    row["rank"] = it.rank;
    row["queue"] = it.queue;
    row["end_seconds"] = it.end;
    row["moving_seconds"] = it.moving;
    row["waiting_seconds"] = it.waiting;
    rows.append(row);
  }
  return rows;
}

nb::list step_rows(const MachineSimulation& made) {
  nb::list rows;
  for (const StepLoad& it : step_loads(made.program, made.machine, made.run)) {
    nb::list links;
    for (const StepLoad::Use& use : it.uses) {
      nb::dict link;
      link["name"] = to_text(made.program.resources[use.resource], made.topology());
      link["bytes"] = use.bytes;
      link["flows"] = use.flows;
      link["full_speed_seconds"] = use.seconds;
      links.append(link);
    }
    nb::dict row;
    row["from_seconds"] = it.from;
    row["to_seconds"] = it.to;
    row["links"] = links;
    rows.append(row);
  }
  return rows;
}

nb::dict extrapolate(const Topology& topology, const std::string& collective, size_t message_bytes,
                     const std::string& algorithm, int root, const std::vector<int>& factors, int parts,
                     const std::string& access, int most_ranks, const Settings* settings, const nb::object& progress) {
  const TunerProgress tell = teller(progress);
  const MachinePlanRequest request{parse_collective(collective), algorithm,    0, root, factors, parts,
                                   parse_access(access),         message_bytes};
  const Extrapolation made = [&] {
    const nb::gil_scoped_release release;
    return extrapolate_on_machine(topology, request, settings != nullptr ? *settings : Settings{}, tell, most_ranks);
  }();
  nb::list points;
  for (const Extrapolation::Point& it : made.points) {
    nb::dict point;
    point["nodes"] = it.nodes;
    point["seconds"] = it.seconds;
    points.append(point);
  }
  nb::dict found;
  found["algorithm"] = made.algorithm;
  found["profile"] = made.profile;
  found["nodes"] = made.nodes;
  found["ranks"] = made.ranks;
  found["seconds"] = made.seconds;
  found["over"] = made.over;
  found["error"] = made.error;
  found["checked_times"] = made.checked_times;
  found["times"] = made.times;
  found["points"] = points;
  found["text"] = made.describe();
  return found;
}

FlagPlace parse_protocol(const std::string& text) {
  if (text == "Simple") return FlagPlace::kBehindData;
  if (text == "LL") return FlagPlace::kEvery8Bytes;
  if (text == "LL128") return FlagPlace::kEvery128Bytes;
  fail(ErrorCode::kInvalidArgument, "protocol '", text, "'; it is Simple, LL or LL128");
}

void bind_prediction(nb::module_& module) {
  nb::class_<PlanPrediction>(module, "PlanPrediction", "The time of one plan on one machine by its costs.")
      .def(
          "__init__",
          [](PlanPrediction* self, const Topology& topology, const std::string& collective,
             const std::string& algorithm, int ranks, int root, const std::string& protocol) {
            MachinePlanRequest request;
            request.collective = parse_collective(collective);
            request.algorithm = algorithm;
            request.ranks = ranks;
            request.root = root;
            new (self) PlanPrediction(topology, request, parse_protocol(protocol));
          },
          nb::arg("topology"), nb::arg("collective"), nb::arg("algorithm"), nb::kw_only(), nb::arg("ranks") = 0,
          nb::arg("root") = 0, nb::arg("protocol") = "Simple", "Raises InvalidArgument, and what making a plan raises.")
      .def_static(
          "of_launch",
          [](const Topology& topology, const std::string& collective, const std::string& algorithm, size_t bytes,
             int ranks, int root, const std::string& shape, bool with_ending, bool pdl, bool by_host) {
            MachinePlanRequest request;
            request.collective = parse_collective(collective);
            request.algorithm = algorithm;
            request.ranks = ranks;
            request.root = root;
            request.bytes = bytes;
            return std::make_unique<PlanPrediction>(topology, request, shape, CallsInARow{with_ending, pdl, by_host});
          },
          nb::arg("topology"), nb::arg("collective"), nb::arg("algorithm"), nb::arg("message_bytes"), nb::kw_only(),
          nb::arg("ranks") = 0, nb::arg("root") = 0, nb::arg("shape") = "", nb::arg("with_ending") = true,
          nb::arg("pdl") = true, nb::arg("by_host") = false,
          "The same as GPUs launch it for messages of one size: `shape` as PLAIT_LAUNCH has it, empty: the tuner's; "
          "`with_ending`: the last slices as the profile says; `pdl`: programmatic dependent launch, where it can be; "
          "`by_host`: the host launches each call, else a graph does. Times are those of one call in a row of them.")
      .def_prop_ro("algorithm", &PlanPrediction::algorithm, "with its arguments")
      .def_prop_ro("is_launch", &PlanPrediction::is_launch, "as GPUs perform it, in slices, for one size")
      .def_prop_ro(
          "media",
          [](const PlanPrediction& it) {
            std::vector<std::string> names;
            for (const LinkKind kind : it.media()) names.emplace_back(name(kind));
            return names;
          },
          "The kinds of links over which ranks signal each other.")
      .def(
          "seconds",
          [](const PlanPrediction& it, const Profile& profile, double bytes) {
            return it.seconds(profile.costs, bytes);
          },
          nb::arg("profile"), nb::arg("message_bytes"), "By the costs of a profile, from call to return.");
}

}  // namespace

void bind_simulation(nb::module_& module) {
  bind_prediction(module);
  nb::class_<MachineSimulation>(module, "Simulation", "A simulated run of a plan on a machine, as simulate() gives it.")
      .def_ro("algorithm", &MachineSimulation::algorithm, "what made the plan, with its arguments")
      .def_prop_ro(
          "topology", [](const MachineSimulation& made) { return made.topology(); },
          "the machine, with only the GPUs that take part")
      .def_prop_ro(
          "profile", [](const MachineSimulation& made) { return made.ranks_on().profile->name; },
          "where costs come from")
      .def_prop_ro(
          "ranks", [](const MachineSimulation& made) { return made.ranks_on().ranks(); },
          "how many ranks the plan is for")
      .def_prop_ro(
          "reason", [](const MachineSimulation& made) { return made.chosen.choice.reason(); },
          "why this plan was chosen, one sentence")
      .def_ro("is_proved", &MachineSimulation::is_proved,
              "whether the plan was proved; of others the form was checked, since their proof takes long")
      .def_ro("operations", &MachineSimulation::operations, "how many there are in all queues of all ranks")
      .def_prop_ro(
          "shifts", [](const MachineSimulation& made) { return made.shifts ? made.shifts->text() : ""; },
          "under which ranks look alike that were simulated once: \"shifts of 32 x 25 nodes\"; empty: none were")
      .def_prop_ro(
          "simulated_ranks",
          [](const MachineSimulation& made) {
            return made.ranks_on().ranks() / (made.shifts ? made.shifts->shifts() : 1);
          },
          "all, or those that stand for all")
      .def_ro("why_unproved", &MachineSimulation::why_unproved, "why a proof by symmetry was not possible; or empty")
      .def_ro("why_whole", &MachineSimulation::why_whole, "why no ranks look alike; empty: nothing spoke against it")
      .def_prop_ro(
          "bytes", [](const MachineSimulation& made) { return static_cast<size_t>(made.run.bytes); }, "of the message")
      .def_prop_ro(
          "seconds", [](const MachineSimulation& made) { return made.run.seconds; }, "from call to return")
      .def_ro("launch", &MachineSimulation::launch, "what GPUs launch, in words; empty: the plan was simulated once")
      .def_ro("why_no_launch", &MachineSimulation::why_no_launch, "why the plan was simulated once; empty: it was not")
      .def_ro("seconds_in_a_row", &MachineSimulation::seconds_in_a_row,
              "one call of several that follow each other in a graph, as benchmarks measure it; 0 without a launch")
      .def_prop_ro(
          "bound_seconds", [](const MachineSimulation& made) { return bound_of(made.machine, made.run).seconds; },
          "of the busiest link, if it were never idle")
      .def_prop_ro("causes", &causes_of, "Seconds of the critical path by cause, which add up to `seconds`.")
      .def_prop_ro("links", &link_rows,
                   "A dict for each direction of a link, and each memory, that carries anything: `name`, `kind`, "
                   "`bytes`, `gbps` (10^9 bytes/s, or None), `busy_seconds`, `most_flows` (transfers at once) and "
                   "`critical_seconds` (of the critical path).")
      .def_prop_ro("queues", &queue_rows,
                   "A dict for each queue: `rank`, `queue` (its number there), `end_seconds`, `moving_seconds` (in "
                   "which it moves bytes) and `waiting_seconds`.")
      .def_prop_ro("steps", &step_rows,
                   "A dict for each step, a transfer being of the step after the last one of another rank that it "
                   "waits for: `from_seconds`, `to_seconds`, and `links`, those that take longest first, each with "
                   "`name`, `bytes`, `flows` (transfers of the step) and `full_speed_seconds`.")
      .def(
          "describe_steps",
          [](const MachineSimulation& made) {
            return describe_steps(made.program, step_loads(made.program, made.machine, made.run), made.topology());
          },
          "`steps` as a table, with the busiest link of each.")
      .def("describe", &MachineSimulation::describe, "Time, bound and critical path, in a few lines.")
      .def("describe_links", &MachineSimulation::describe_links, "`links` as a table, with units.")
      .def("trace", &MachineSimulation::trace,
           "The timeline as Chrome's trace events in JSON, which Perfetto opens. Raises InvalidArgument where the run "
           "has more than a million steps.")
      .def("__repr__", [](const MachineSimulation& made) { return join("<plait.Simulation ", made.algorithm, ">"); });
  module.def("seconds_text", &seconds_text, nb::arg("seconds"), "\"12.3 us\", \"4 ms\", \"2 s\".");
  module.def(
      "simulate_on_machine", &make, nb::arg("topology"), nb::arg("collective"), nb::arg("message_bytes"),
      nb::arg("algorithm") = "", nb::kw_only(), nb::arg("ranks") = 0, nb::arg("root") = 0,
      nb::arg("factors") = std::vector<int>(), nb::arg("parts") = 0, nb::arg("access") = "staged",
      nb::arg("folding") = "auto", nb::arg("prove") = false, nb::arg("settings") = nb::none(),
      nb::arg("progress") = nb::none(),
      "What a plan should take on a machine, by simulation.\n\n"
      "`topology`, `collective`, `algorithm`, `ranks`, `root`, `factors`, `parts`, `access`, `settings` and `progress` "
      "are as for plait.plans.for_machine(). `message_bytes`: of the message. `folding`: of more than 256 ranks those "
      "that look alike are simulated once; with \"never\" every rank is, with \"always\" few ranks are folded as well. "
      "Figures are the same. `prove`: whether the plan is proved, however long that takes. Raises InvalidArgument, "
      "also of a plan that must be proved and is too large.");
  module.def(
      "extrapolate_on_machine", &extrapolate, nb::arg("topology"), nb::arg("collective"), nb::arg("message_bytes"),
      nb::arg("algorithm"), nb::kw_only(), nb::arg("root") = 0, nb::arg("factors") = std::vector<int>(),
      nb::arg("parts") = 0, nb::arg("access") = "staged", nb::arg("most_ranks") = 0, nb::arg("settings") = nb::none(),
      nb::arg("progress") = nb::none(),
      "What a plan should take on more nodes than can be simulated: the times of a half, a quarter, … of them, "
      "continued.\n\n"
      "`topology`, `collective`, `message_bytes`, `algorithm`, `root`, `factors`, `parts`, `access`, `settings` and "
      "`progress` are as for plait.simulator.simulate(). `most_ranks`: of the largest simulation, 0 for 16,384. Gives "
      "a "
      "dict: "
      "`algorithm`, `profile`, `nodes`, `ranks`, `seconds`, `over` (\"logarithm\", \"number\" or \"square of the "
      "logarithm\" of nodes, whichever was least off), `error` (a share: how far that was off for the last point, from "
      "points of `checked_times` times fewer nodes, or how far other curves that were near are from it), `times` (how "
      "many times the nodes of the last point this goes), `points` (dicts of `nodes` "
      "and `seconds`) and `text`. Raises InvalidArgument, also where fewer than four points can be simulated.");
  module.def(
      "simulate_plan", &make_of_plan, nb::arg("topology"), nb::arg("plan"), nb::arg("message_bytes"), nb::kw_only(),
      nb::arg("profile") = "", nb::arg("settings") = nb::none(),
      "What a plan that somebody wrote should take on a machine.\n\n"
      "`topology`: the machine, with one rank a GPU. `plan`: such as plait.plans.load() gives. `message_bytes`: of "
      "the message. `profile`: the name of the one that has the costs, empty for the one that fits. `settings`: None "
      "for the defaults. Raises InvalidArgument where the plan's nodes are not those of the ranks, or there is no such "
      "profile.");
}

}  // namespace plait::python
