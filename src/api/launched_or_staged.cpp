// Takes calls to kernels or to lanes.
#include "api/launched_or_staged.hpp"

#include <algorithm>
#include <utility>

#include "api/choice_for.hpp"
#include "base/error.hpp"
#include "tuner/overrides.hpp"

namespace plait {
namespace {

// Whether kernels cannot perform the plan of a choice that the user insists on; no other is taken in its place.
bool is_beyond(const PlanLimits& kernels, Tuner& tuner, const Choice& choice) {
  return choice.is_forced && !choice.zero_copy && kernels.excess(*tuner.plan(choice.plan)).has_value();
}

// Where the algorithm does not take this machine, the call will say so.
bool pins_beyond(const PlanLimits& kernels, Tuner& tuner, const AlgorithmOverrides::Entry& entry) {
  try {
    return is_beyond(kernels, tuner, tuner.choose({entry.collective, std::max<size_t>(entry.from, 1)}));
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

bool pins_plan_beyond(const PlanLimits& kernels, Tuner& tuner, const Settings& settings) {
  const AlgorithmOverrides overrides = AlgorithmOverrides::parse(settings.algorithm);
  return std::ranges::any_of(overrides.entries(),
                             [&](const auto& entry) { return pins_beyond(kernels, tuner, entry); });
}

bool LaunchedOrStaged::runs_on_host(const VerifiedPlan& plan) const {
  return plan.plan().access == Access::kStaged && limits_.excess(plan).has_value();
}

void LaunchedOrStaged::give(std::shared_ptr<const VerifiedPlan> plan) {
  is_staged_.clear();
  launched_->give(plan);
  if (runs_on_host(*plan)) staged_->give(std::move(plan));
}

bool LaunchedOrStaged::is_staged(const Call& call) {
  return is_staged_.get(call, [&] {
    if (call.plan != 0) return runs_on_host(tuner().given(call.plan));
    return is_beyond(limits_, tuner(), choice_for(tuner(), call));
  });
}

DeviceBackend& LaunchedOrStaged::backend_for(const Call& call) {
  if (is_staged(call)) return *staged_;
  return *launched_;
}

bool LaunchedOrStaged::start(const Call& call, const void* input, void* output, void* stream, const Scalar* scalar) {
  started_ = &backend_for(call);
  return started_->start(call, input, output, stream, scalar);
}

bool LaunchedOrStaged::start(std::span<const PeerMessage> messages, std::span<void* const> streams) {
  started_ = launched_.get();
  return started_->start(messages, streams);
}

void LaunchedOrStaged::run(const Call& call, const void* input, void* output, const Scalar* scalar) {
  if (!is_staged(call)) {
    staged_->finish();
    return launched_->run(call, input, output, scalar);
  }
  launched_->finish();
  staged_->run(call, input, output, scalar);
}

void LaunchedOrStaged::finish() {
  launched_->finish();
  staged_->finish();
}

void LaunchedOrStaged::close() {
  launched_->close();
  staged_->close();
}

void LaunchedOrStaged::poll_reports() {
  launched_->poll_reports();
  staged_->poll_reports();
}

void LaunchedOrStaged::stop_waiting() {
  launched_->stop_waiting();
  staged_->stop_waiting();
}

}  // namespace plait
