// Plans: made, verified, read and written.
#include "plan/plan.hpp"

#include <nanobind/operators.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "algorithms/spec.hpp"
#include "api/inspect.hpp"
#include "api/machine_plan.hpp"
#include "api/proof_by_symmetry.hpp"
#include "base/error.hpp"
#include "bindings/bindings.hpp"
#include "bindings/communicator_handle.hpp"
#include "bindings/plan_arguments.hpp"
#include "plan/conditions.hpp"
#include "plan/fingerprint.hpp"
#include "plan/json.hpp"
#include "plan/picture.hpp"
#include "plan/text.hpp"
#include "plan/verifier.hpp"

namespace plait::python {
namespace {

using LinkTuple = std::tuple<int, int, double>;  // as DeviceLink

VerifiedPlan make(const std::string& collective, const std::string& algorithm, int ranks, int root,
                  const std::vector<int>& factors, int parts, const std::string& access,
                  const std::vector<std::vector<int>>& groups, const std::vector<int>& node_of,
                  const std::vector<LinkTuple>& links) {
  AlgorithmArguments arguments;
  arguments.collective = parse_collective(collective);
  AlgorithmSpec spec = parse_spec(algorithm, arguments.collective);
  if (parts < 1) fail(ErrorCode::kInvalidArgument, "parts is ", parts, "; it counts them, from 1 on");
  if (spec.parts == 0) spec.parts = parts;
  if (spec.factors.empty()) spec.factors = factors;
  check_no_vain_root(arguments.collective, root);
  arguments.ranks = ranks;
  arguments.root = root;
  arguments.access = parse_access(access);
  arguments.groups = groups;
  arguments.node_of = node_of;
  for (const auto& [a, b, gbps] : links) arguments.links.push_back({a, b, gbps});
  return verify(find_algorithm(spec.name, arguments.collective).make(resolve(spec, arguments)));
}

MachinePlan make_for_machine(const Topology& topology, const std::string& collective, const std::string& algorithm,
                             int ranks, int root, const std::vector<int>& factors, int parts, const std::string& access,
                             size_t message_bytes, const Settings* settings, const nb::object& progress) {
  const TunerProgress tell = teller(progress);
  const nb::gil_scoped_release release;
  return plan_for_machine(
      topology,
      {parse_collective(collective), algorithm, ranks, root, factors, parts, parse_access(access), message_bytes},
      settings != nullptr ? *settings : Settings{}, tell);
}

ProvedBySymmetry prove_alike(const Topology& topology, const std::string& collective, const std::string& algorithm,
                             int ranks, int root, const std::vector<int>& factors, int parts, const std::string& access,
                             const Settings* settings, const nb::object& progress) {
  const TunerProgress tell = teller(progress);
  const nb::gil_scoped_release release;
  return prove_by_symmetry(topology,
                           {parse_collective(collective), algorithm, ranks, root, factors, parts, parse_access(access)},
                           settings != nullptr ? *settings : Settings{}, tell);
}

std::string explain(const MachinePlan& made, size_t message_bytes, const nb::object& progress) {
  const TunerProgress tell = teller(progress);
  const nb::gil_scoped_release release;
  return made.explain(message_bytes, tell);
}

nb::object or_none(const std::string& text) { return text.empty() ? nb::none() : nb::cast(text); }

// One row of the table of choices.
nb::dict range_row(const PlannedRange& range) {
  const Choice& choice = range.choice;
  nb::dict row;
  row["from_bytes"] = range.from;
  row["to_bytes"] = range.to;
  row["algorithm"] = choice.plan.text();
  row["ending"] = choice.ending ? nb::cast(choice.ending->text()) : nb::none();
  row["zero_copy"] = choice.zero_copy ? nb::cast(choice.zero_copy->text()) : nb::none();
  row["protocol"] = name(range.protocol);
  row["steps"] = range.steps;
  row["from_seconds"] = range.from_seconds;
  row["to_seconds"] = range.to_seconds;
  row["bound_gbps"] = range.bound_gbps;
  row["measured"] = choice.is_measured && choice.measured_elsewhere.empty();
  row["measured_elsewhere"] = or_none(choice.measured_elsewhere);
  nb::list times;
  for (const MeasuredTimes::Point& it : range.measured) times.append(nb::make_tuple(it.bytes, it.seconds));
  row["measured_times"] = times;
  row["measured_source"] = or_none(range.measured_source);
  row["lacking_on_gpus"] = or_none(range.lacking_on_gpus);
  row["is_staged"] = range.is_staged;
  row["on_gpus"] = or_none(range.on_gpus);
  row["reason"] = choice.reason();
  return row;
}

nb::list range_rows(const MachinePlan& made) {
  nb::list rows;
  for (const PlannedRange& range : made.ranges) rows.append(range_row(range));
  return rows;
}

nb::list left_out_rows(const MachinePlan& made) {
  nb::list rows;
  for (const LeftOut& it : made.left_out()) {
    nb::dict row;
    row["algorithm"] = it.plan.text();
    row["reason"] = it.why;
    rows.append(row);
  }
  return rows;
}

nb::typed<nb::list, Algorithm> algorithm_table() {
  nb::typed<nb::list, Algorithm> table;
  for (const Algorithm& algorithm : algorithms()) table.append(nb::cast(algorithm));
  return table;
}

std::vector<std::string> collectives_of(const Algorithm& algorithm) {
  std::vector<std::string> names;
  for (const Collective collective : algorithm.collectives) names.emplace_back(name(collective));
  return names;
}

}  // namespace

Access parse_access(const std::string& text) {
  for (const Access access : {Access::kStaged, Access::kZeroCopy}) {
    if (text == name(access)) return access;
  }
  fail(ErrorCode::kInvalidArgument, "access '", text, "' is none of: staged, zero_copy");
}

TunerProgress teller(const nb::object& progress) {
  return [&progress](const std::string& what) {
    hear_python_signals();
    const nb::gil_scoped_acquire acquire;
    if (!progress.is_none()) progress(what);
  };
}

void bind_plan(nb::module_& module) {
  nb::class_<Algorithm>(module, "Algorithm", "One way to make plans.")
      .def_prop_ro(
          "name", [](const Algorithm& algorithm) { return std::string(algorithm.name); },
          "as `algorithm` of make() takes it")
      .def_prop_ro(
          "summary", [](const Algorithm& algorithm) { return std::string(algorithm.summary); },
          "what it does, in a sentence")
      .def_prop_ro(
          "source", [](const Algorithm& algorithm) { return std::string(algorithm.source); },
          "the paper that it is from, or where else it is known from")
      .def_prop_ro("collectives", &collectives_of, "those that it has plans for");

  nb::class_<VerifiedPlan>(module, "Plan",
                           "Who moves what where, in which order. Every plan in Python has been verified. str() is the "
                           "whole plan, one line an operation.")
      .def_prop_ro(
          "algorithm", [](const VerifiedPlan& plan) { return plan.plan().algorithm; },
          "the one that made it, with its arguments")
      .def_prop_ro(
          "collective", [](const VerifiedPlan& plan) { return name(plan.plan().collective); },
          "what it does, such as \"all_reduce\"")
      .def_prop_ro(
          "ranks", [](const VerifiedPlan& plan) { return plan.plan().rank_count(); }, "how many ranks it is for")
      .def_prop_ro(
          "root", [](const VerifiedPlan& plan) { return plan.plan().root; },
          "the rank that gives or gets all, 0 where the collective has no root")
      .def_prop_ro(
          "access", [](const VerifiedPlan& plan) { return name(plan.plan().access); },
          "how ranks reach each other's data: \"staged\" or \"zero_copy\"")
      .def_prop_ro(
          "in_place", [](const VerifiedPlan& plan) { return plan.plan().in_place; },
          "whether the output may be the input")
      .def_prop_ro(
          "fingerprint", [](const VerifiedPlan& plan) { return fingerprint_text(plan.fingerprint()); },
          "16 hexadecimal digits: equal for equal plans, of this version of Plait")
      .def_prop_ro(
          "chunks", [](const VerifiedPlan& plan) { return plan.plan().chunk_count(); },
          "how many parts the message is cut into")
      .def_prop_ro(
          "steps", [](const VerifiedPlan& plan) { return plan.report().steps; },
          "signals and messages between ranks on the longest chain")
      .def_prop_ro(
          "chunks_read", [](const VerifiedPlan& plan) { return plan.report().chunks_read; },
          "how many chunks each rank reads, by rank")
      .def_prop_ro(
          "chunks_written", [](const VerifiedPlan& plan) { return plan.report().chunks_written; },
          "how many chunks each rank writes, by rank")
      .def("summary", &summarize, nb::arg("message_bytes") = 0,
           "Steps, bytes per rank and traffic, in a few lines. `message_bytes`: 0 shows them as multiples of the "
           "message.")
      .def(
          "to_json", [](const VerifiedPlan& plan) { return to_json(plan.plan()); },
          "The plan as JSON, which plait.plans.from_json() reads.")
      .def(
          "to_svg", [](const VerifiedPlan& plan) { return to_svg(plan); }, "A picture for a browser: SVG.")
      .def(
          "to_picture", [](const VerifiedPlan& plan) { return to_text_picture(plan.plan()); },
          "A picture for a terminal.")
      .def("__str__", [](const VerifiedPlan& plan) { return to_text(plan.plan()); })
      .def("__repr__", [](const VerifiedPlan& plan) { return join("<plait.Plan ", plan.plan().algorithm, ">"); })
      .def("__eq__", [](const VerifiedPlan& a, const VerifiedPlan& b) { return a.plan() == b.plan(); });

  nb::class_<MachinePlan>(module, "MachinePlan", "A plan for the links of a machine, and why it was chosen.")
      .def_prop_ro(
          "plan", [](const MachinePlan& made) -> const VerifiedPlan& { return *made.plan; },
          nb::rv_policy::reference_internal, "the plan, verified")
      .def_prop_ro(
          "topology", [](const MachinePlan& made) { return made.machine().topology; },
          "the machine, with only the GPUs that take part")
      .def_prop_ro(
          "profile", [](const MachinePlan& made) { return made.machine().profile->name; },
          "where costs and measured tables come from")
      .def_prop_ro("ranges", &range_rows,
                   "What a communicator of these ranks runs, by size of the message: a dict a range, with the keys of "
                   "`plait plan --json`. Empty where an algorithm was asked for.")
      .def_prop_ro("left_out", &left_out_rows,
                   "Plans that the model did not try: a dict each, with algorithm and reason. Empty where it was not "
                   "asked.")
      .def("table", &MachinePlan::table, "`ranges` as a table, with units.")
      .def("notes", &MachinePlan::notes, "What to know of the table, a sentence a line.")
      .def_prop_ro("reason", &MachinePlan::reason, "why this plan was chosen, one sentence")
      .def_prop_ro("launch", &MachinePlan::launch,
                   "how GPUs launch it; empty for CPUs, and where an algorithm was asked for")
      .def("explain", &explain, nb::arg("message_bytes") = 0, nb::kw_only(), nb::arg("progress") = nb::none(),
           "What the plan does to every link, what others would take, and what spoke for it. `message_bytes`: 0 for a "
           "long message. `progress`: as for for_machine().");
  module.def(
      "plan_for_machine", &make_for_machine, nb::arg("topology"), nb::arg("collective"), nb::arg("algorithm") = "",
      nb::kw_only(), nb::arg("ranks") = 0, nb::arg("root") = 0, nb::arg("factors") = std::vector<int>(),
      nb::arg("parts") = 0, nb::arg("access") = "staged", nb::arg("message_bytes") = 0,
      nb::arg("settings") = nb::none(), nb::arg("progress") = nb::none(),
      "The plan of an algorithm on a machine.\n\n"
      "`topology`: the machine, with one rank a GPU. `collective`: its name, such as \"all_reduce\". `algorithm`: as "
      "for make(); empty for what a communicator of these ranks runs. `ranks`: 0 for all GPUs. `root`, `factors`, "
      "`parts` and `access` are as for make(); 0 parts are as many as the algorithm likes. `message_bytes`: for which "
      "the plan is chosen, 0 for a long message. `settings`: None for the defaults. `progress`: called with a text "
      "that says what is being done, which takes seconds over thousands of ranks. Raises InvalidArgument.");

  nb::class_<ProvedBySymmetry>(module, "ProvedBySymmetry",
                               "A plan that was proved by the few ranks that stand for all, and is not there whole.")
      .def_prop_ro(
          "algorithm", [](const ProvedBySymmetry& it) { return it.folded.plan.algorithm; },
          "The algorithm and its arguments, such as \"ring(parts=2)\".")
      .def_prop_ro(
          "ranks", [](const ProvedBySymmetry& it) { return it.folded.plan.rank_count(); }, "Of the plan, all of them.")
      .def_prop_ro(
          "chunks", [](const ProvedBySymmetry& it) { return it.folded.plan.chunk_count(); },
          "That the message is divided into.")
      .def_prop_ro(
          "operations", [](const ProvedBySymmetry& it) { return it.folded.fold.operations(); },
          "Of all ranks, each of which was compared with that of the rank that stands for it.")
      .def_prop_ro(
          "shifts", [](const ProvedBySymmetry& it) { return it.folded.fold.shifts().text(); },
          "Under which the plan looks alike, in words.")
      .def_prop_ro(
          "proved_ranks",
          [](const ProvedBySymmetry& it) { return it.folded.plan.rank_count() / it.folded.fold.shifts().shifts(); },
          "The number of ranks that stand for all.")
      .def_ro("machine", &ProvedBySymmetry::machine, "Its name.")
      .def_ro("nodes", &ProvedBySymmetry::nodes, "The number of nodes.")
      .def("summary", &ProvedBySymmetry::summary, nb::arg("message_bytes") = 0,
           "Lines on steps, bytes and the busiest pairs, as Plan.summary(), of the whole plan.\n\n"
           "`message_bytes`: writes amounts in bytes of such a message as well; 0: as multiples of the message alone.");
  module.def(
      "prove_by_symmetry", &prove_alike, nb::arg("topology"), nb::arg("collective"), nb::arg("algorithm"),
      nb::kw_only(), nb::arg("ranks") = 0, nb::arg("root") = 0, nb::arg("factors") = std::vector<int>(),
      nb::arg("parts") = 0, nb::arg("access") = "staged", nb::arg("settings") = nb::none(),
      nb::arg("progress") = nb::none(),
      "Proves a plan of an algorithm that is too large to be held whole, by the few ranks that stand for all.\n\n"
      "`topology`: the machine, with one rank a GPU. `collective`: its name. `algorithm`, `ranks`, `root`, `factors`, "
      "`parts`, `access`, `settings` and `progress` are as for plan_for_machine(). Raises InvalidArgument, also where "
      "no few ranks stand for all, and InvalidPlan.");
  module.def("algorithms", &algorithm_table, "All algorithms, by name.");
  module.def(
      "make_plan", &make, nb::arg("collective"), nb::arg("algorithm"), nb::arg("ranks"), nb::kw_only(),
      nb::arg("root") = 0, nb::arg("factors") = std::vector<int>(), nb::arg("parts") = 1, nb::arg("access") = "staged",
      nb::arg("groups") = std::vector<std::vector<int>>(), nb::arg("node_of") = std::vector<int>(),
      nb::arg("links") = std::vector<LinkTuple>(), nb::call_guard<nb::gil_scoped_release>(),
      "The verified plan of an algorithm.\n\n"
      "`collective`: its name, such as \"all_reduce\". `algorithm`: \"ring\", or with more, such as "
      "\"flat(store, parts=2)\"; what is left open is as the algorithm likes it. `ranks`: how many. `root`: the rank "
      "that gives or gets all, where the collective has one. `factors`: hierarchy, such as [4, 2]. `parts`: of the "
      "message that are under way at once. `access`: \"staged\" or \"zero_copy\". `groups`: NVLink groups as lists of "
      "ranks, the leader first. `node_of`: node of each rank. `links`: between pairs of ranks, such as (0, 1, 25.0) "
      "with 25 GB/s each way, in order. Raises InvalidArgument that says what is legal.");
  module.def(
      "plan_from_json",
      [](const std::string& text, const std::string& file) { return verify(plan_from_json(text, file)); },
      nb::arg("text"), nb::arg("file") = "text",
      "Reads and verifies a plan. `text`: JSON, as Plan.to_json() gives it. `file`: what messages call it. Raises "
      "InvalidInput where the text is no plan, InvalidPlan where the plan is wrong.");
}

}  // namespace plait::python
