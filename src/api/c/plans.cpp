// Plans of the user's own: their handles.
#include "api/c/plans.hpp"

#include <string>

#include "api/c/result.hpp"
#include "plan/json.hpp"
#include "topology/text_file.hpp"

namespace plait::c {
namespace {

// A plan of 2^24 chunks is smaller, and a device or a pipe may have no end.
constexpr size_t kMostBytes = size_t{256} << 20;

// All that were ever made, linked by `older`: see handle.cpp.
std::atomic<plaitPlan*> newest_plan{nullptr};

plaitPlan_t keep(VerifiedPlan plan) {
  auto* handle = new plaitPlan(std::make_shared<const VerifiedPlan>(std::move(plan)));
  handle->older = newest_plan.load();
  while (!newest_plan.compare_exchange_weak(handle->older, handle)) {
  }
  return handle;
}

// An unreadable file or text counts as an argument that cannot be used.
template <class Read>
plaitResult_t read_plan(const char* function, plaitPlan_t* plan, const char* argument, const char* value,
                        const Read& read) {
  return at_edge(function, [&] {
    require(plan, "plan");
    *plan = nullptr;
    require(value, argument);
    try {
      *plan = keep(verify(read()));
    } catch (const Error& error) {
      const bool is_wrong = error.code() == ErrorCode::kInvalidInput || error.code() == ErrorCode::kInvalidPlan;
      if (is_wrong) refuse(plaitInvalidArgument, error.what());
      throw;
    }
  });
}

plaitPlan_t check_plan(plaitPlan_t plan) {
  require(plan, "plan");
  if (plan->magic != plaitPlan::kIsPlan) refuse(plaitInvalidArgument, "plan is not a handle that Plait made");
  return plan;
}

}  // namespace

std::shared_ptr<const VerifiedPlan> plan_of(plaitPlan_t plan) {
  check_plan(plan);
  const std::lock_guard lock(plan->mutex);
  if (!plan->plan) refuse(plaitInvalidArgument, "plan is the handle of a plan that was destroyed");
  return plan->plan;
}

}  // namespace plait::c

using namespace plait::c;

extern "C" plaitResult_t plaitPlanLoad(plaitPlan_t* plan, const char* path) {
  return read_plan("plaitPlanLoad", plan, "path", path,
                   [&] { return plait::plan_from_json(plait::read_text_file(path, kMostBytes), path); });
}

extern "C" plaitResult_t plaitPlanParse(plaitPlan_t* plan, const char* json) {
  return read_plan("plaitPlanParse", plan, "json", json, [&] { return plait::plan_from_json(json, "json"); });
}

extern "C" plaitResult_t plaitPlanDestroy(plaitPlan_t plan) {
  return at_edge("plaitPlanDestroy", [&] {
    if (plan == nullptr) return;
    plan_of(plan);  // refuses one that has ended
    const std::lock_guard lock(plan->mutex);
    plan->plan.reset();
  });
}
