// The rate of a network, from a few rounds of messages that all hosts exchange at once.
//
// Early bytes say little: TCP begins slowly, and a token bucket lets a burst pass at once. So of each round only its
// later half counts (runtime/host/message_train.hpp), and each has twice the bytes of the one before. It is over when
// two rounds agree, or when enough time is spent: what is wanted is which plan is fast, not the last percent.
//
// All is a pure function of what ranks agreed on, so all get the same rate.
#pragma once

#include <cstddef>

namespace plait {

class NetworkRounds {
 public:
  // The most of any rank.
  struct Round {
    double seconds_per_byte = 0;  // in the later half of the bytes
    double seconds = 0;           // from its first arrival to its last
  };

  // What each host sends and gets in the next round.
  size_t bytes() const { return bytes_; }
  void agree(const Round& round);
  bool is_over() const { return is_over_; }

  // Of a host each way, 10^9 bytes/s, in two figures. Once it is over.
  double gbps() const;
  int rounds() const { return rounds_; }
  double seconds() const { return seconds_; }  // that all took
  size_t total_bytes() const { return total_bytes_; }

 private:
  static constexpr size_t kFirstBytes = size_t{256} << 10;

  bool last_two_agree() const;

  size_t bytes_ = kFirstBytes, total_bytes_ = 0;
  int rounds_ = 0;
  double seconds_ = 0;
  double before_ = 0, last_ = 0;  // seconds per byte of the last two rounds
  bool is_over_ = false;
};

}  // namespace plait
