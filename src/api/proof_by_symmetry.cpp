// Proofs of large plans.
#include "api/proof_by_symmetry.hpp"

#include <utility>

#include "algorithms/folding.hpp"
#include "api/inspect.hpp"
#include "base/error.hpp"
#include "plan/traffic.hpp"

namespace plait {
namespace {

// Of the likely shifts, the first under which the plan looks alike.
FoldedPlan folded(const Algorithm& algorithm, const AlgorithmArguments& arguments, int nodes) {
  constexpr int kNoRacks = 0;  // whatever the network is, a plan sees nodes alone
  std::string why = "there is one node";
  for (const auto& digits : likely_shifts(arguments, nodes, kNoRacks)) {
    try {
      return make_folded(algorithm, arguments, NodeShifts(arguments.ranks, digits));
    } catch (const NotSymmetric& error) {
      why = error.what();
    }
  }
  throw NotSymmetric(ErrorCode::kInvalidArgument, join("no few ranks of the plan stand for all: ", why));
}

}  // namespace

ProvedBySymmetry prove_by_symmetry(const Topology& topology, const MachinePlanRequest& request,
                                   const Settings& settings, const TunerProgress& progress) {
  const MachineChoice chosen = choose_for_machine(topology, request, settings, progress);
  const PlanChoice& choice = chosen.choice.plan;
  const Algorithm& algorithm = find_algorithm(choice.algorithm, choice.arguments.collective);
  if (progress) progress(join("proving ", choice.text()));
  const Topology& on = chosen.tuner->machine().topology;
  FoldedPlan plan = folded(algorithm, choice.arguments, on.nodes);
  PlanReport report = prove_folded(algorithm, choice.arguments, plan);
  static_cast<PlanCounts&>(report) = count(plan.plan, plan.fold.pairing());
  return {std::move(plan), std::move(report), on.name, on.nodes};
}

std::string ProvedBySymmetry::summary(size_t message_bytes) const {
  return summarize_alike(folded.plan, report, message_bytes, folded.fold.shifts());
}

}  // namespace plait
