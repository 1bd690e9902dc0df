// The tuner's simulations: of one run of a plan, which knows contention, or where launches are known, of these.
#include <algorithm>
#include <limits>

#include "plan/proof_size.hpp"
#include "tuner/rules.hpp"
#include "tuner/tuner.hpp"

namespace plait {
namespace {

// Launches of longer messages take too long to simulate for a choice. From here on their time grows by the byte.
constexpr size_t kLongestLaunchBytes = 64 << 20;

// A row of fewer ranks gives way to what is faster by this factor, which is more than simulated launches were ever
// found to be off: of rows held out from the fit 1.05 times on average, and 1.23 at most (docs/calibration.md).
constexpr double kMuchFaster = 1.25;

// No kernel gets more of a link than that.
double best_efficiency(const KernelCosts& kernels) {
  return std::max({kernels.store_efficiency, kernels.spread_efficiency, kernels.load_efficiency});
}

}  // namespace

bool Tuner::simulates(Collective collective) const {
  return collective != Collective::kBarrier && machine_.ranks() > 1 && machine_.ranks() <= kMostSimulatedRanks;
}

Tuner::Simulations& Tuner::simulations(const Query& query) {
  const std::pair key{query.collective, has_root(query.collective) ? query.root : 0};
  return simulations_.try_emplace(key, machine_, limits_).first->second;
}

Query Tuner::sampled(Query query, size_t bytes) const {
  const size_t grain = kVectorBytes * (has_rank_blocks(query.collective) ? static_cast<size_t>(machine_.ranks()) : 1);
  return {query.collective, std::max(grain, bytes / grain * grain), query.root};
}

std::optional<double> Tuner::launch_seconds(const PlanChoice& plan, const Query& query, const LaunchWish& wish,
                                            double most) {
  Choice choice;
  choice.plan = plan;
  launch_on_gpus(choice, query, nullptr, wish);
  const auto made = [&](const std::optional<PlanChoice>& it) { return it ? this->plan(*it) : nullptr; };
  const auto main = made(choice.plan), ending = made(choice.ending), zero_copy = made(choice.zero_copy);
  return timer_->seconds(machine_, {main.get(), ending.get(), zero_copy.get(), choice.launch, query.bytes}, most);
}

std::optional<double> Tuner::launch_seconds(const Candidate& it, const Query& query, double most) {
  LaunchWish wish;
  wish.protocol = it.protocol;
  wish.follows_rules = false;
  try {
    return launch_seconds(it.choice, query, wish, most);
  } catch (const PlanTooLarge&) {
    return std::nullopt;
  }
}

std::optional<double> Tuner::row_seconds(const MeasuredRule& rule, const Query& query) {
  const auto [known, is_new] = simulations(query).rows.try_emplace({join(rule.choice, ' ', rule.threads), query.bytes});
  if (!is_new) return known->second;
  LaunchWish wish;
  wish.threads = rule.threads;
  return known->second = launch_seconds(made_of(parse_spec(rule.choice, query.collective), query, ""), query, wish,
                                        std::numeric_limits<double>::infinity());
}

Stopwatch Tuner::stopwatch(const Query& query) {
  Stopwatch watch;
  if (!knows_launches()) {
    watch.seconds = [this, query](const Candidate& it, size_t bytes, double most) {
      return simulations(query).runs.seconds(machine_, it, static_cast<double>(bytes), most);
    };
    watch.least = [](const Candidate& it, size_t bytes) { return it.cost.seconds(static_cast<double>(bytes)); };
    watch.variations = [this, query](const Candidate& it) { return simulations(query).variations.of(it); };
    return watch;
  }
  watch.most_bytes = kLongestLaunchBytes;
  watch.seconds = [this, query](const Candidate& it, size_t bytes, double most) {
    return launch_seconds(it, sampled(query, bytes), most);
  };
  watch.least = [share = 1 / best_efficiency(*machine_.profile->costs.kernels)](const Candidate& it, size_t bytes) {
    return it.bound_seconds_per_byte * share * static_cast<double>(bytes);
  };
  return watch;
}

double Tuner::seconds(const Candidate& it, double bytes) {
  const Collective collective = it.choice.arguments.collective;
  if (!simulates(collective)) return it.cost.seconds(bytes);
  const Query query{collective, 0, it.choice.arguments.root};
  const std::optional<double> simulated = simulations(query).contest.seconds(it, bytes, stopwatch(query));
  return simulated.value_or(it.cost.seconds(bytes));
}

double Tuner::limit_of(const Query& query) {
  const MeasuredRule* const row = knows_launches() ? measured_rule(query) : nullptr;
  const std::optional<double> seconds = row == nullptr ? std::nullopt : row_seconds(*row, query);
  return seconds ? *seconds / kMuchFaster : std::numeric_limits<double>::infinity();
}

const Candidate& Tuner::fastest_by_model(const Query& query, const Candidates& candidates) {
  const auto bytes = static_cast<double>(query.bytes);
  if (simulates(query.collective)) {
    Contest& contest = simulations(query).contest;
    const auto limit = [&](size_t there) { return limit_of(sampled(query, there)); };
    if (const Candidate* fastest = contest.fastest(candidates, bytes, stopwatch(query), limit)) return *fastest;
  }
  return candidates.cheapest(bytes);
}

// Launches are asked, not single runs: these are further from what GPUs do than the row is.
const Candidate* Tuner::faster_than_guess(const Query& query, const MeasuredRule& rule) {
  const int measured_ranks = machine_.profile->measured_on.ranks;
  if (measured_ranks == 0 || machine_.ranks() <= measured_ranks || !simulates(query.collective)) return nullptr;
  if (!knows_launches() || launch_ || query.only_simple || machine_.gpus->most_sms > 0) return nullptr;
  const auto limit = [&](size_t there) { return limit_of(sampled(query, there)); };
  const auto bytes = static_cast<double>(query.bytes);
  const Stopwatch watch = stopwatch(query);
  Contest& contest = simulations(query).contest;
  const Candidate* const best = contest.fastest(find(query.collective, query.root), bytes, watch, limit);
  if (best == nullptr) return nullptr;
  const SampledSizes sizes(bytes, watch.most_bytes);
  const auto at_low = row_seconds(rule, sampled(query, sizes.low));
  const auto at_high = row_seconds(rule, sampled(query, sizes.high));
  if (!at_low || !at_high) return nullptr;
  return seconds(*best, bytes) * kMuchFaster < sizes.between(*at_low, *at_high) ? best : nullptr;
}

}  // namespace plait
