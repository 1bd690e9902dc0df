// The rate of a network, from a few rounds of messages that all hosts exchange at once.
//
// A round takes no less than the network needs for it, but more where hosts are busy, TCP begins slowly, or one comes
// late; and a token bucket lets a burst pass for nothing. So each round has twice the bytes of the one before, and the
// last two decide. It is over when they agree, or when enough time is spent and they are not far apart: what is wanted
// is which plan is fast, not the last percent.
//
// All is a pure function of what ranks agreed on, so all get the same rate.
#pragma once

#include <cstddef>

namespace plait {

class NetworkRounds {
 public:
  // The most of any rank.
  struct Round {
    double seconds = 0;  // from its own beginning to the last arrival
    double span = 0;     // by the time between arrivals, seconds for all bytes: a rank that comes late is not in it
  };

  // What each host sends and gets in the next round.
  size_t bytes() const { return bytes_; }
  void agree(const Round& round);
  bool is_over() const { return is_over_; }

  // Of a host each way, 10^9 bytes/s, in two figures. Once it is over.
  double gbps() const;
  double last_gbps() const { return last_; }
  int rounds() const { return rounds_; }
  double seconds() const { return seconds_; }  // that all took
  size_t total_bytes() const { return total_bytes_; }

 private:
  static constexpr size_t kFirstBytes = size_t{256} << 10;

  bool last_two_are_within(double factor) const;

  size_t bytes_ = kFirstBytes, total_bytes_ = 0;
  int rounds_ = 0;
  double seconds_ = 0;
  double before_ = 0, last_ = 0;  // 10^9 bytes/s, in the last two rounds
  bool is_over_ = false;
};

}  // namespace plait
