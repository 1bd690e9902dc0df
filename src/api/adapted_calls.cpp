// Performs calls in rounds of trials, and finds challengers for them.
#include "api/adapted_calls.hpp"

#include <algorithm>

#include "api/choice_for.hpp"
#include "base/error.hpp"
#include "tuner/neighbours.hpp"

namespace plait {
namespace {

// A call adapts once it was made so often.
constexpr int kCallsBefore = 3;
constexpr size_t kMostCounts = 1024;  // of different calls; then counts begin again
// Different calls that adapt. One that was not made among so many last ones makes room for another.
constexpr size_t kMostCalls = 64;
constexpr uint64_t kIdleCalls = 10'000;
// Candidates that the model finds so many times as slow as the choice are not tried, nor more than so many.
constexpr double kNear = 2;
constexpr size_t kMostCandidates = 8;
// Of one call. The neighbours of these are not tried.
constexpr size_t kMostOptions = 64;
// Of all plans that one call makes and proves: it would take seconds where ranks are many.
constexpr int64_t kMostOperationsAtOnce = 4 * kMostVariedOperations;

bool is_known(const std::vector<PlanChoice>& choices, const PlanChoice& it) {
  return std::ranges::any_of(choices, [&](const PlanChoice& known) { return known.text() == it.text(); });
}

// All ranks leave such a call once the last one has come: what it took that one is what it takes. The others waited.
bool waits_for_all(Collective collective) { return !has_root(collective); }

}  // namespace

// Trials begin after a call, and end after one: so what ranks tell each other comes after calls that were alike.
void AdaptedCalls::run(const Call& call, const Perform& perform) {
  const auto found = adapted_.find(key_of(call));
  if (call.plan != 0 || is_empty(call) || (found != adapted_.end() && !found->second.trials)) return perform(call);
  if (found != adapted_.end()) return run_trial(call, found->second, perform);
  perform(call);
  ++calls_;
  count(call);
}

void AdaptedCalls::run_trial(const Call& call, Adapted& adapted, const Perform& perform) {
  Call named = call;
  named.plan = adapted.options[static_cast<size_t>(adapted.trials->plan())].plan->fingerprint();
  const double start = hooks_.clock();
  perform(named);
  adapted.trials->took(hooks_.clock() - start);
  adapted.last_call = ++calls_;
  if (adapted.trials->has_ended()) end_round(call, adapted);
}

std::shared_ptr<const VerifiedPlan> AdaptedCalls::plan_in_use(const Call& call) const {
  const auto found = adapted_.find(key_of(call));
  if (call.plan != 0 || found == adapted_.end() || !found->second.trials) return nullptr;
  return found->second.options[static_cast<size_t>(found->second.trials->in_use())].plan;
}

void AdaptedCalls::count(const Call& call) {
  if (counts_.size() >= kMostCounts) counts_.clear();
  int& made = counts_[key_of(call)];
  if (++made < kCallsBefore || !make_room()) return;
  counts_.erase(key_of(call));
  Adapted& adapted = adapted_[key_of(call)];
  adapted.last_call = calls_;
  begin(call, adapted);
}

bool AdaptedCalls::make_room() {
  if (adapted_.size() < kMostCalls) return true;
  const auto oldest = std::ranges::min_element(adapted_, {}, [](const auto& it) { return it.second.last_call; });
  if (calls_ - oldest->second.last_call < kIdleCalls) return false;
  adapted_.erase(oldest);
  return true;
}

void AdaptedCalls::begin(const Call& call, Adapted& adapted) {
  if (choice_for(tuner_, call).is_forced) return;
  const std::vector<int> usable = add(call, near_candidates(call), adapted);
  if (usable.size() < 2) return;
  adapted.options.front().has_neighbours = true;
  adapted.trials.emplace(usable[0], std::vector<int>(usable.begin() + 1, usable.end()));
}

// The tuner's choice first, then its neighbours, then other algorithms as the model has them.
std::vector<PlanChoice> AdaptedCalls::near_candidates(const Call& call) {
  const Choice choice = choice_for(tuner_, call);
  std::vector<PlanChoice> choices{choice.plan};
  for (PlanChoice& it : neighbours_of(choice.plan)) {
    if (!is_known(choices, it)) choices.push_back(std::move(it));
  }
  const auto bytes = static_cast<double>(message_bytes(call, tuner_.machine().ranks()));
  const double limit = kNear * tuner_.cost(choice).seconds(bytes);
  std::vector<std::pair<double, const PlanChoice*>> others;
  for (const Candidate& it : tuner_.candidates(call.collective, call.root).all) {
    const double seconds = it.cost.seconds(bytes);
    if (seconds <= limit && !is_known(choices, it.choice)) others.emplace_back(seconds, &it.choice);
  }
  std::ranges::stable_sort(others, {}, &std::pair<double, const PlanChoice*>::first);
  others.resize(std::min(others.size(), kMostCandidates));
  for (const auto& [seconds, other] : others) choices.push_back(*other);
  return choices;
}

std::vector<int> AdaptedCalls::add(const Call& call, std::vector<PlanChoice> choices, Adapted& adapted) {
  std::vector<Option> made(choices.size());
  std::vector<double> unusable;
  int64_t operations = kMostOperationsAtOnce;
  for (size_t i = 0; i < choices.size(); ++i) unusable.push_back(make(call, choices[i], operations, made[i]) ? 0 : 1);
  hooks_.greatest(unusable);
  std::vector<int> numbers;
  for (size_t i = 0; i < made.size(); ++i) {
    if (unusable[i] != 0) continue;
    const auto known = std::ranges::find(adapted.options, made[i].plan, &Option::plan);
    numbers.push_back(static_cast<int>(known - adapted.options.begin()));
    if (known == adapted.options.end()) adapted.options.push_back(std::move(made[i]));
  }
  return numbers;
}

// A neighbour need not be a plan, and plans can be too large.
bool AdaptedCalls::make(const Call& call, const PlanChoice& choice, int64_t& operations, Option& option) {
  try {
    option.choice = choice;
    option.choice.arguments.most_operations = static_cast<int>(std::min<int64_t>(operations, kMostVariedOperations));
    option.plan = tuner_.plan(option.choice);
    operations -= option.plan->plan().operation_count();
    tuner_.keep(option.plan);
    Call named = call;
    named.plan = option.plan->fingerprint();
    return hooks_.can_perform(named, *option.plan);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument && error.code() != ErrorCode::kInvalidPlan) throw;
    return false;
  }
}

void AdaptedCalls::end_round(const Call& call, Adapted& adapted) {
  Trials& trials = *adapted.trials;
  const int before = trials.in_use();
  const double sign = waits_for_all(call.collective) ? -1 : 1;
  std::vector<double> seconds = trials.seconds();
  for (double& it : seconds) it *= sign;
  hooks_.greatest(seconds);
  for (double& it : seconds) it *= sign;
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
  const bool has_new = !std::exchange(from.has_neighbours, true) && adapted.options.size() < kMostOptions;
  if (!has_new && number != trials.in_use()) return;
  std::vector<int> challengers;
  const auto challenge = [&](int it) {
    if (it != trials.in_use() && std::ranges::find(challengers, it) == challengers.end()) challengers.push_back(it);
  };
  if (has_new) std::ranges::for_each(add(call, neighbours_of(PlanChoice(from.choice)), adapted), challenge);
  for (int it = 0; it < static_cast<int>(adapted.options.size()); ++it) challenge(it);
  trials.challenge(std::move(challengers));
}

const std::string& AdaptedCalls::text_of(const Adapted& adapted, int number) {
  return adapted.options[static_cast<size_t>(number)].plan->plan().algorithm;
}

}  // namespace plait
