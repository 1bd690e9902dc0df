#include "tuner/network_rounds.hpp"

#include <algorithm>
#include <cmath>

namespace plait {
namespace {

constexpr size_t kMostBytes = size_t{4} << 20;
constexpr int kMostRounds = 6;
constexpr double kMostSeconds = 0.015;
// Two rates so near each other are of one network.
constexpr double kAlike = 1.15;
// The half of a round that counts has to last so long, or the scheduler of a busy host is what was measured.
constexpr double kLeastSeconds = 0.002;
// What no network reaches, as where the bytes of all hosts lay there when they were looked for.
constexpr double kLeastSecondsPerByte = 1e-11;

double in_two_figures(double number) {
  const double unit = std::pow(10, std::floor(std::log10(number)) - 1);
  return std::round(number / unit) * unit;
}

}  // namespace

bool NetworkRounds::last_two_agree() const {
  return rounds_ > 1 && std::max(before_, last_) <= kAlike * std::min(before_, last_);
}

void NetworkRounds::agree(const Round& round) {
  before_ = last_;
  last_ = std::max(round.seconds_per_byte, kLeastSecondsPerByte);
  seconds_ += round.seconds;
  total_bytes_ += bytes_;
  ++rounds_;
  const bool is_long = last_ * static_cast<double>(bytes_) / 2 >= kLeastSeconds;
  is_over_ = rounds_ == kMostRounds || seconds_ >= kMostSeconds || (is_long && last_two_agree());
  bytes_ = std::min(2 * bytes_, kMostBytes);
}

// What a burst let pass is least in the last round.
double NetworkRounds::gbps() const { return in_two_figures(1e-9 / last_); }

}  // namespace plait
