// Contests of candidates.
#include "tuner/contest.hpp"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace plait {
namespace {

constexpr size_t kFirst = 16, kSecond = 1024, kStep = 2;
constexpr double kSame = 1.001;
constexpr double kNear = 1.5;  // variations of what is slower than that are not tried
// Who takes more than that times the fastest is not timed to the end. At the next sample, of twice the bytes, the
// fastest takes at most twice as long; so the fastest there is no further behind here, and whoever is loses to it at
// both samples, and between them. The two least samples are 64 times apart: between them that is a guess, which changed
// none of 48,720 choices.
constexpr double kFarBehind = 2;
constexpr double kWorthIt = 1.02;  // how much faster variations must be, if links and memory allow it, to be tried

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

std::optional<double> Contest::sample(const Candidate& it, size_t bytes, const Stopwatch& watch, double most) {
  const auto [known, is_new] = samples_.try_emplace({Key{it.choice.text(), it.protocol}, bytes});
  Sample& sample = known->second;
  if (is_new || (!sample.seconds && sample.most < most)) sample = {watch.seconds(it, bytes, most), most};
  return sample.seconds;
}

std::optional<double> Contest::seconds(const Candidate& it, double bytes, const Stopwatch& watch) {
  const SampledSizes sizes(bytes, watch.most_bytes);
  constexpr double kAny = std::numeric_limits<double>::infinity();
  const auto at_low = sample(it, sizes.low, watch, kAny), at_high = sample(it, sizes.high, watch, kAny);
  if (!at_low || !at_high) return std::nullopt;
  return sizes.between(*at_low, *at_high);
}

struct Contest::Course {
  size_t bytes;
  const Stopwatch& watch;
  double limit;

  double least(const Candidate& it) const { return watch.least(it, bytes); }
  // Whether a candidate that takes so long at least need not be timed.
  bool is_lost(double least, const Heat& heat) const { return least >= std::min(limit, heat.fastest * kSame); }
};

void Contest::time(const Candidate& it, const Course& course, Heat& heat) {
  const double most = std::min(course.limit, heat.fastest * kFarBehind);
  const std::optional<double> seconds = sample(it, course.bytes, course.watch, most);
  if (!seconds || *seconds >= course.limit) return;
  heat.timed.push_back({&it, *seconds});
  heat.fastest = std::min(heat.fastest, *seconds);
}

// In order of the least that they may take, until that is more than the fastest takes. The cheapest by its costs goes
// before, since others are then timed no longer than it allows.
void Contest::time_all(const Candidates& candidates, const Course& course, Heat& heat) {
  std::vector<Timed> order;
  for (const Candidate& it : candidates.all) order.push_back({&it, course.least(it)});
  const Candidate& likely = candidates.cheapest(static_cast<double>(course.bytes));
  if (!course.is_lost(course.least(likely), heat)) {
    const std::optional<double> first = sample(likely, course.bytes, course.watch, course.limit);
    if (first && *first < course.limit) heat.fastest = *first;
  }
  std::stable_sort(order.begin(), order.end(), [](const Timed& a, const Timed& b) { return a.seconds < b.seconds; });
  for (const auto& [candidate, least] : order) {
    if (course.is_lost(least, heat)) break;
    time(*candidate, course, heat);
  }
}

// The time of a candidate, or the least that it may take if it was not timed, or not to the end.
Contest::Timed Contest::known(const Candidate& it, const Course& course) const {
  const auto found = samples_.find({Key{it.choice.text(), it.protocol}, course.bytes});
  if (found == samples_.end()) return {&it, course.least(it)};
  return {&it, found->second.seconds.value_or(std::max(course.least(it), found->second.most))};
}

// Goes from one to its fastest variation, and on from there, as long as that gets faster.
void Contest::climb(Timed from, const Course& course, Heat& heat) {
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    if (from.candidate->cost.seconds_in_any_parts(static_cast<double>(course.bytes)) * kWorthIt > heat.fastest) return;
    for (const Candidate* it : course.watch.variations(*from.candidate)) {
      if (!heat.has(*it) && !course.is_lost(course.least(*it), heat)) time(*it, course, heat);
      const Timed there = known(*it, course);
      if (there.seconds * kSame >= from.seconds) continue;
      from = there;
      goes_on = true;
    }
  }
}

// From the best of each algorithm.
void Contest::time_variations(const Candidates& candidates, const Course& course, Heat& heat) {
  std::map<std::string_view, Timed> best;
  for (const Candidate& it : candidates.all) {
    const Timed own = known(it, course);
    const auto [found, is_new] = best.try_emplace(it.choice.algorithm, own);
    if (!is_new && own.seconds < found->second.seconds) found->second = own;
  }
  std::vector<Timed> order;
  for (const auto& [algorithm, timed] : best) order.push_back(timed);
  std::stable_sort(order.begin(), order.end(), [](const Timed& a, const Timed& b) { return a.seconds < b.seconds; });
  for (const Timed& it : order) {
    if (it.seconds < heat.fastest * kNear) climb(it, course, heat);
  }
}

const Contest::Heat& Contest::heat(const Candidates& candidates, size_t bytes, const Stopwatch& watch, double limit) {
  const auto [found, is_new] = heats_.try_emplace(bytes);
  Heat& heat = found->second;
  if (!is_new) return heat;
  heat.fastest = std::numeric_limits<double>::infinity();
  const Course course{bytes, watch, limit};
  time_all(candidates, course, heat);
  if (watch.variations) time_variations(candidates, course, heat);
  for (const auto& [candidate, seconds] : heat.timed) {
    const bool is_as_fast = seconds <= heat.fastest * kSame;
    if (is_as_fast && (!heat.winner || candidate->steps < heat.winner->steps)) heat.winner = candidate;
  }
  return heat;
}

// Who wins at neither of two samples may win between them.
const Candidate* Contest::fastest(const Candidates& candidates, double bytes, const Stopwatch& watch,
                                  const std::function<double(size_t bytes)>& limit) {
  const SampledSizes sizes(bytes, watch.most_bytes);
  const Heat& low = heat(candidates, sizes.low, watch, limit(sizes.low));
  const Heat& high = heat(candidates, sizes.high, watch, limit(sizes.high));
  if (low.winner == nullptr || high.winner == nullptr) return low.winner == nullptr ? high.winner : low.winner;
  const auto seconds_of = [&](const Candidate& it) {
    return seconds(it, bytes, watch).value_or(std::numeric_limits<double>::infinity());
  };
  Timed best{low.winner, seconds_of(*low.winner)};
  const auto compare = [&](const Candidate* it, double seconds) {
    if (seconds * kSame < best.seconds) best = {it, seconds};
  };
  compare(high.winner, seconds_of(*high.winner));
  for (const auto& [candidate, at_low] : low.timed) {
    const auto also = std::find_if(high.timed.begin(), high.timed.end(),
                                   [it = candidate](const Timed& timed) { return timed.candidate == it; });
    if (also != high.timed.end()) compare(candidate, sizes.between(at_low, also->seconds));
  }
  return best.candidate;
}

}  // namespace plait
