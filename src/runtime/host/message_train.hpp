// A train of messages from one host to the next while another comes from the one before, to learn what the network
// carries (tuner/network_rounds.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/host/other_nodes.hpp"

namespace plait {

// As its receiver has it.
struct TrainTime {
  double seconds = 0;  // from its own beginning to the last arrival
  double span = 0;     // from the first arrival to the last, seconds
};

class MessageTrain {
 public:
  // Starts to send `bytes` bytes to a rank of another host, and to receive as many from one.
  MessageTrain(OtherNodes& others, int to, int from, uint64_t tag, size_t bytes);
  // Where messages are still under way, it cuts all connections: none may come once their memory is gone.
  ~MessageTrain();
  MessageTrain(const MessageTrain&) = delete;
  MessageTrain& operator=(const MessageTrain&) = delete;

  // Takes what came. Whether there was anything.
  bool advance();
  bool is_over() const;

  TrainTime time() const;  // once it is over

 private:
  static constexpr size_t kMessages = 8;

  OtherNodes& others_;
  const size_t bytes_;                 // of a message
  const std::vector<std::byte> sent_;  // all messages are the same
  std::vector<std::byte> received_;    // one after the other
  std::array<NetRequest, kMessages> sends_, receives_;
  double begun_ = 0, first_arrival_ = 0, last_arrival_ = 0;
  size_t arrived_ = 0;
};

}  // namespace plait
