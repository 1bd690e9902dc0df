#include "tuner/network_rounds.hpp"

#include <algorithm>
#include <cmath>

namespace plait {
namespace {

constexpr size_t kMostBytes = size_t{4} << 20;
constexpr int kMostRounds = 7;
constexpr double kMostSeconds = 0.015;
// Two rates so near each other are of one network.
constexpr double kAlike = 1.15;
// A round of fewer seconds may be a burst, or two turns of a busy host's scheduler.
constexpr double kLeastSeconds = 0.004;
// Two rates of which the slower one had only more to wait for. Those further apart need another round: one of them was
// a burst, or a stall of a host or of TCP, which can be as long as a hundred rounds.
constexpr double kDisturbed = 2;
// What no network reaches: the bytes of all hosts may lie there before they are looked for.
constexpr double kMostGbps = 100;

double in_two_figures(double number) {
  const double unit = std::pow(10, std::floor(std::log10(number)) - 1);
  return std::round(number / unit) * unit;
}

}  // namespace

bool NetworkRounds::last_two_are_within(double factor) const {
  return rounds_ > 1 && std::max(before_, last_) <= factor * std::min(before_, last_);
}

// In the first round ranks come as late as they come to the call that wants to know.
void NetworkRounds::agree(const Round& round) {
  const double seconds = rounds_ == 0 ? round.span : round.seconds;
  before_ = last_;
  last_ = std::min(1e-9 * static_cast<double>(bytes_) / std::max(seconds, 1e-9), kMostGbps);
  seconds_ += seconds;
  total_bytes_ += bytes_;
  ++rounds_;
  const bool are_alike = rounds_ > 2 && seconds >= kLeastSeconds && last_two_are_within(kAlike);
  is_over_ = rounds_ == kMostRounds || are_alike || (seconds_ >= kMostSeconds && last_two_are_within(kDisturbed));
  if (seconds < kMostSeconds) bytes_ = std::min(2 * bytes_, kMostBytes);
}

double NetworkRounds::gbps() const {
  return in_two_figures(last_two_are_within(kDisturbed) ? std::max(before_, last_) : last_);
}

}  // namespace plait
