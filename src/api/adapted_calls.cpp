// Performs calls in rounds of trials, and finds challengers for them.
#include "api/adapted_calls.hpp"

#include <algorithm>
#include <utility>

#include "api/choice_for.hpp"
#include "base/error.hpp"
#include "tuner/neighbours.hpp"

namespace plait {
namespace {

// A call is tried once it was made so often.
constexpr int kCallsBefore = 3;
// Different calls beyond these keep the tuner's choice.
constexpr size_t kMostCalls = 64;
// Candidates that the model finds so many times as slow as the choice are not tried, nor more than so many.
constexpr double kNear = 2;
constexpr size_t kMostCandidates = 8;
// Of one call. The neighbours of these are not tried.
constexpr size_t kMostOptions = 64;

bool is_known(const std::vector<PlanChoice>& choices, const PlanChoice& it) {
  return std::ranges::any_of(choices, [&](const PlanChoice& known) { return known.text() == it.text(); });
}

}  // namespace

// Trials begin after a call, and end after one: so what ranks tell each other comes after calls that were alike.
void AdaptedCalls::run(const Call& call, const Perform& perform) {
  Adapted* const adapted = find(call);
  if (adapted != nullptr && adapted->trials) return run_trial(call, *adapted, perform);
  perform(call);
  if (adapted != nullptr && ++adapted->calls == kCallsBefore) begin(call, *adapted);
}

void AdaptedCalls::run_trial(const Call& call, Adapted& adapted, const Perform& perform) {
  const Option& option = adapted.options[static_cast<size_t>(adapted.trials->plan())];
  Call named = call;
  named.plan = option.plan->fingerprint();
  hooks_.can_perform(named, option.plan);  // who is given many plans forgets some
  const double start = hooks_.clock();
  perform(named);
  adapted.trials->took(hooks_.clock() - start);
  if (adapted.trials->has_ended()) end_round(call, adapted);
}

std::shared_ptr<const VerifiedPlan> AdaptedCalls::plan_in_use(const Call& call) const {
  const auto found = calls_.find(key_of(call));
  if (found == calls_.end() || !found->second.trials) return nullptr;
  return found->second.options[static_cast<size_t>(found->second.trials->in_use())].plan;
}

AdaptedCalls::Adapted* AdaptedCalls::find(const Call& call) {
  if (call.plan != 0 || is_empty(call)) return nullptr;
  const auto known = calls_.find(key_of(call));
  if (known != calls_.end()) return &known->second;
  if (calls_.size() >= kMostCalls) return nullptr;
  return &calls_[key_of(call)];
}

void AdaptedCalls::begin(const Call& call, Adapted& adapted) {
  if (choice_for(tuner_, call).is_forced) return;
  const std::vector<int> usable = add(call, near_candidates(call), adapted.options);
  if (usable.size() >= 2) adapted.trials.emplace(usable[0], std::vector<int>(usable.begin() + 1, usable.end()));
}

// The tuner's choice first, then its neighbours, then other algorithms as the model has them.
std::vector<PlanChoice> AdaptedCalls::near_candidates(const Call& call) {
  const Choice choice = choice_for(tuner_, call);
  std::vector<PlanChoice> choices{choice.plan};
  const auto bytes = static_cast<double>(message_bytes(call, tuner_.machine().ranks()));
  const double limit = kNear * tuner_.cost(choice).seconds(bytes);
  std::vector<std::pair<double, const PlanChoice*>> others;
  for (const Candidate& it : tuner_.candidates(call.collective, call.root).all) {
    const double seconds = it.cost.seconds(bytes);
    if (seconds <= limit) others.emplace_back(seconds, &it.choice);
  }
  std::ranges::stable_sort(others, {}, &std::pair<double, const PlanChoice*>::first);
  for (const auto& [seconds, other] : others) {
    if (choices.size() <= kMostCandidates && !is_known(choices, *other)) choices.push_back(*other);
  }
  for (PlanChoice& it : neighbours_of(choice.plan)) {
    if (!is_known(choices, it)) choices.push_back(std::move(it));
  }
  return choices;
}

std::vector<int> AdaptedCalls::add(const Call& call, std::vector<PlanChoice> choices, std::vector<Option>& options) {
  std::vector<Option> made;
  std::vector<double> unusable;
  for (PlanChoice& it : choices) {
    it.arguments.most_operations = kMostVariedOperations;
    Option& option = made.emplace_back();
    try {
      option = {it, tuner_.plan(it)};
      Call named = call;
      named.plan = option.plan->fingerprint();
      unusable.push_back(hooks_.can_perform(named, option.plan) ? 0 : 1);
    } catch (const Error& error) {  // a neighbour need not be a plan, and plans can be too large
      if (error.code() != ErrorCode::kInvalidArgument && error.code() != ErrorCode::kInvalidPlan) throw;
      unusable.push_back(1);
    }
  }
  hooks_.greatest(unusable);
  std::vector<int> numbers;
  for (size_t i = 0; i < made.size(); ++i) {
    if (unusable[i] != 0) continue;
    const auto known = std::ranges::find(options, made[i].plan, &Option::plan);
    numbers.push_back(static_cast<int>(known - options.begin()));
    if (known == options.end()) options.push_back(std::move(made[i]));
  }
  return numbers;
}

void AdaptedCalls::end_round(const Call& call, Adapted& adapted) {
  Trials& trials = *adapted.trials;
  const int before = trials.in_use();
  std::vector<double> seconds = trials.seconds();
  hooks_.greatest(seconds);
  switch (trials.agree(seconds)) {
    case Trials::Verdict::kNothingNew:
      return;
    case Trials::Verdict::kOtherPlan:
      log_.info("adapts: ", to_text(call), " took ", seconds[0] * 1e6, " us by ", text_of(adapted, before),
                " and takes ", trials.last_seconds() * 1e6, " us by ", text_of(adapted, trials.in_use()));
      return challenge_from(call, adapted, trials.in_use());
    case Trials::Verdict::kNoneIsFaster:
      return challenge_from(call, adapted, trials.runner_up());
  }
}

// A plan whose neighbours are all slower may be the fastest, or stand where two steps at once are needed: so the
// neighbours of the best challenger are tried as well, and so on.
void AdaptedCalls::challenge_from(const Call& call, Adapted& adapted, int number) {
  Trials& trials = *adapted.trials;
  Option& from = adapted.options[static_cast<size_t>(number)];
  std::vector<int> first;
  if (!std::exchange(from.has_neighbours, true) && adapted.options.size() < kMostOptions)
    first = add(call, neighbours_of(PlanChoice(from.choice)), adapted.options);
  else if (number != trials.in_use())
    return;
  std::vector<int> challengers;
  const auto challenge = [&](int it) {
    if (it != trials.in_use() && std::ranges::find(challengers, it) == challengers.end()) challengers.push_back(it);
  };
  for (const int it : first) challenge(it);
  for (int it = 0; it < static_cast<int>(adapted.options.size()); ++it) challenge(it);
  trials.challenge(std::move(challengers));
}

const std::string& AdaptedCalls::text_of(const Adapted& adapted, int number) {
  return adapted.options[static_cast<size_t>(number)].plan->plan().algorithm;
}

}  // namespace plait
