// Refusing plans that a caller gives, in words that help.
#include "api/given_plan.hpp"

#include "base/error.hpp"
#include "base/figures.hpp"

namespace plait {
namespace {

std::string on_gpus_text(const PlanLimits& limits) {
  return join("; on GPUs a rank has ", limits.least_queues, " to ", counted(limits.queues, "queue"), ", of engine ",
              name(Engine::kSm), ", with at most ", counted(limits.operations, "operation"), ", ", limits.places,
              " places and ", counted(limits.signals, "signal"),
              ", without slots in host memory, messages, and stores at other ranks that nobody reads; with ",
              "PLAIT_STAGED_PLANS=1 on all ranks, CPUs perform the others");
}

}  // namespace

void check_given(const VerifiedPlan& verified, int ranks, const PlanLimits& limits, bool on_gpus) {
  const Plan& plan = verified.plan();
  const auto refuse = [&](const auto&... parts) {
    fail(ErrorCode::kInvalidArgument, "plan ", plan.algorithm, " ", parts...);
  };
  if (plan.rank_count() != ranks) {
    refuse("is for ", counted(plan.rank_count(), "rank"), ", and this communicator has ", ranks);
  }
  if (plan.access == Access::kZeroCopy) {
    if (on_gpus) return;  // copy plans have another form, which each call checks
    refuse("has access ", name(plan.access),
           ": ranks read each other's buffers, as only GPUs do; on host memory, use one of access ",
           name(Access::kStaged));
  }
  if (const auto excess = limits.excess(verified)) {
    refuse("cannot run here: ", *excess, on_gpus ? on_gpus_text(limits) : "");
  }
}

void check_same_collective(const Plan& plan, Collective collective, int root) {
  if (plan.collective == collective && (!has_root(collective) || plan.root == root)) return;
  const auto text = [](Collective it, int its_root) {
    return has_root(it) ? join(name(it), ", root ", its_root) : std::string(name(it));
  };
  fail(ErrorCode::kInvalidArgument, "plan ", plan.algorithm, " is one of ", text(plan.collective, plan.root),
       ", and the call one of ", text(collective, root));
}

}  // namespace plait
