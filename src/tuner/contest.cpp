// Contests of candidates.
#include "tuner/contest.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace plait {
namespace {

constexpr size_t kFirst = 16, kSecond = 1024, kStep = 4;
constexpr double kSame = 1.001;

}  // namespace

SampledSizes::SampledSizes(double asked, size_t most) : low(kFirst), high(kSecond), bytes(asked) {
  while (static_cast<double>(high) < bytes && high * kStep <= most) {
    low = high;
    high *= kStep;
  }
}

double SampledSizes::between(double at_low, double at_high) const {
  const double first = static_cast<double>(low), last = static_cast<double>(high);
  return at_low + (at_high - at_low) * (std::max(bytes, static_cast<double>(kFirst)) - first) / (last - first);
}

std::optional<double> Contest::sample(const Candidate& it, size_t bytes, const Stopwatch& watch) {
  const std::pair key{Key{it.choice.text(), it.protocol}, bytes};
  const auto known = samples_.find(key);
  return known != samples_.end() ? known->second : samples_.emplace(key, watch.seconds(it, bytes)).first->second;
}

std::optional<double> Contest::seconds(const Candidate& it, double bytes, const Stopwatch& watch) {
  const SampledSizes sizes(bytes, watch.most_bytes);
  const auto at_low = sample(it, sizes.low, watch), at_high = sample(it, sizes.high, watch);
  if (!at_low || !at_high) return std::nullopt;
  return sizes.between(*at_low, *at_high);
}

// In order of the least that they may take, until that is more than the fastest takes.
const Candidate* Contest::winner(const Candidates& candidates, size_t bytes, const Stopwatch& watch, double limit) {
  if (const auto known = winners_.find(bytes); known != winners_.end()) {
    return known->second ? &candidates.all[*known->second] : nullptr;
  }
  std::vector<double> least;
  for (const Candidate& it : candidates.all) least.push_back(watch.least(it, bytes));
  std::vector<size_t> order(least.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return least[a] < least[b]; });
  std::vector<std::pair<size_t, double>> timed;
  double fastest = std::numeric_limits<double>::infinity();
  for (const size_t index : order) {
    if (least[index] >= std::min(limit, fastest * kSame)) break;
    const std::optional<double> seconds = sample(candidates.all[index], bytes, watch);
    if (!seconds || *seconds >= limit) continue;
    timed.emplace_back(index, *seconds);
    fastest = std::min(fastest, *seconds);
  }
  std::optional<size_t>& best = winners_[bytes];
  for (const auto& [index, seconds] : timed) {
    const bool is_as_fast = seconds <= fastest * kSame;
    if (is_as_fast && (!best || candidates.all[index].steps < candidates.all[*best].steps)) best = index;
  }
  return best ? &candidates.all[*best] : nullptr;
}

const Candidate* Contest::fastest(const Candidates& candidates, double bytes, const Stopwatch& watch,
                                  const std::function<double(size_t bytes)>& limit) {
  const SampledSizes sizes(bytes, watch.most_bytes);
  const Candidate* const low = winner(candidates, sizes.low, watch, limit(sizes.low));
  const Candidate* const high = winner(candidates, sizes.high, watch, limit(sizes.high));
  if (low == nullptr || high == nullptr || low == high) return low == nullptr ? high : low;
  const double of_low = seconds(*low, bytes, watch).value_or(std::numeric_limits<double>::infinity());
  const double of_high = seconds(*high, bytes, watch).value_or(std::numeric_limits<double>::infinity());
  return of_high < of_low ? high : low;
}

}  // namespace plait
