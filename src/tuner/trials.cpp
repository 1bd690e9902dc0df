// Rounds of trials.
#include "tuner/trials.hpp"

#include <algorithm>
#include <utility>

namespace plait {
namespace {

constexpr size_t kTurns = 5;        // of each plan in a round's trials
constexpr size_t kCallsInTurn = 2;  // the last of which is timed: ranks that leave early wait at the next call
constexpr size_t kChallengers = 2;  // in a round
constexpr double kFaster = 0.985;   // a challenger must take less than that of the time
constexpr double kChanged = 1.25;   // the plan in use took so many times as long as before, or as short: all is open
constexpr size_t kLeastQuiet = 2, kMostQuiet = 32;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Trials::Trials(int in_use, std::vector<int> challengers) : entrants_{in_use} { challenge(std::move(challengers)); }

void Trials::challenge(std::vector<int> challengers) {
  challengers_ = std::move(challengers);
  start_lap();
  start_round(next_challengers());
}

// All is open: each challenger is tried soon, the nearest first.
void Trials::start_lap() {
  quiet_ = kLeastQuiet;
  next_ = in_lap_ = 0;
  nearest_ = -1;
}

std::vector<int> Trials::next_challengers() {
  std::vector<int> entrants{in_use()};
  for (size_t i = 0; i < std::min(kChallengers, challengers_.size()); ++i) {
    entrants.push_back(challengers_[next_]);
    next_ = (next_ + 1) % challengers_.size();
    ++in_lap_;
  }
  return entrants;
}

void Trials::start_round(std::vector<int> entrants) {
  entrants_ = std::move(entrants);
  seconds_.assign(entrants_.size(), {});
  call_ = 0;
  length_ = trial_calls() * (is_rematch_ ? 1 : quiet_);
}

size_t Trials::trial_calls() const { return kTurns * kCallsInTurn * entrants_.size(); }

// Each time another one begins, so that none always comes after the same.
size_t Trials::entrant() const {
  const size_t turn = call_ / kCallsInTurn;
  return (turn + turn / entrants_.size()) % entrants_.size();
}

int Trials::plan() const { return call_ < trial_calls() ? entrants_[entrant()] : in_use(); }

void Trials::took(double seconds) {
  if (call_ < trial_calls() && call_ % kCallsInTurn == kCallsInTurn - 1) seconds_[entrant()].push_back(seconds);
  ++call_;
}

std::vector<double> Trials::seconds() const {
  std::vector<double> medians;
  for (const std::vector<double>& it : seconds_) medians.push_back(median(it));
  return medians;
}

Trials::Verdict Trials::agree(std::span<const double> agreed) {
  const double before = std::exchange(last_seconds_, agreed[0]);
  const bool has_changed = before > 0 && (last_seconds_ > kChanged * before || last_seconds_ * kChanged < before);
  // The first trials after a change are not those of the nearest challengers, which shall have the first word.
  is_open_ = has_changed && !is_open_;
  if (is_open_) {
    is_rematch_ = false;
    start_lap();
    start_round(next_challengers());
    return Verdict::kNothingNew;
  }
  const auto best = static_cast<size_t>(std::min_element(agreed.begin(), agreed.end()) - agreed.begin());
  const bool is_beaten = agreed[best] < kFaster * last_seconds_;
  const bool takes_place = is_beaten && is_rematch_;
  if (!is_rematch_) look_at_challengers(agreed);
  is_rematch_ = is_beaten && !is_rematch_;
  if (is_rematch_) {
    start_round({in_use(), entrants_[best]});
    return Verdict::kNothingNew;
  }
  if (takes_place) {
    last_seconds_ = agreed[best];
    entrants_.front() = entrants_[best];
    start_lap();
  }
  const bool has_tried_all = in_lap_ >= challengers_.size();
  if (has_tried_all) {
    quiet_ = std::min(kMostQuiet, 2 * quiet_);
    in_lap_ = 0;
    runner_up_ = std::exchange(nearest_, -1);
  }
  start_round(next_challengers());
  return takes_place ? Verdict::kOtherPlan : has_tried_all ? Verdict::kNoneIsFaster : Verdict::kNothingNew;
}

void Trials::look_at_challengers(std::span<const double> agreed) {
  for (size_t i = 1; i < entrants_.size(); ++i) {
    const double share = agreed[i] / agreed[0];
    if (nearest_ >= 0 && share >= nearest_share_) continue;
    nearest_ = entrants_[i];
    nearest_share_ = share;
  }
}

}  // namespace plait
