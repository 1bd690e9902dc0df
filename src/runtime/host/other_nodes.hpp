// The ranks on other nodes, as one rank reaches them: messages of plans, and a word to those who wait for each other.
//
// Ranks of one node see each other's calls in the memory that they share. A rank that has waited for a while for others
// tells them in which call, once in a while, and they compare it with theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/call.hpp"
#include "runtime/net/background_progress.hpp"
#include "runtime/net/long_messages.hpp"
#include "runtime/net/transport.hpp"

namespace plait {

class OtherNodes {
 public:
  // `addresses` and `node_of` are by rank. Addresses of ranks on this node are not looked at.
  OtherNodes(std::unique_ptr<Transport> transport, int rank, std::vector<std::string> addresses,
             std::vector<int> node_of);
  ~OtherNodes();
  OtherNodes(const OtherNodes&) = delete;
  OtherNodes& operator=(const OtherNodes&) = delete;

  bool has(int rank) const { return node_of_[rank] != node_of_[rank_]; }

  // Whoever uses this object holds a turn, except in the constructor and the destructor. Meanwhile nobody else moves
  // messages.
  BackgroundProgress::Turn take_turn() { return background_.take_turn(); }

  // Start a message. Messages of one tag between two ranks keep their order. A request that is no longer pending may be
  // used again.
  void send(int to, uint64_t tag, const void* data, size_t bytes, NetRequest& request);
  void receive(int from, uint64_t tag, void* data, size_t bytes, NetRequest& request);
  void cancel(NetRequest& request);

  // Moves what can be moved. True: some request may have changed.
  bool progress();
  void sleep(long nanoseconds) { transport_->sleep(nanoseconds); }
  // Why a rank is out of reach; empty while nothing says so.
  const std::string& loss(int rank) const { return transport_->loss(rank); }
  // Whether it has been for a while. A rank that has left or died is out of reach as well, and who watches over that
  // has more to say.
  bool is_lost(int rank);

  // Tells the ranks that messages were exchanged with in which call this one waits; not too often.
  void tell(uint64_t number, const Call& call);
  // A word from another rank.
  struct Word {
    int32_t rank = -1;
    uint64_t number = 0;  // of its call
    Call call;
  };
  // The last word of each rank that has sent one.
  const std::vector<std::optional<Word>>& words();

  // Connects to all ranks on other nodes. Returns whether they have answered within so long: then none of them will
  // connect to this one any more, if it has heard the same.
  bool greet_all(double timeout_seconds);
  // Waits until the others have what was sent to them, for at most so long.
  void finish(double timeout_seconds);
  // Cuts all connections: nothing is sent any more, and only receives may still be pending.
  void cut() { transport_->disconnect(); }

 private:
  struct Outgoing {
    Word word;
    NetRequest request;
  };

  void reach(int rank);
  // Asks the others whether they have what was sent to them, and waits for their answer for at most so long.
  bool flush_within(double seconds);
  void listen();

  const std::unique_ptr<Transport> transport_;
  LongMessages long_messages_;
  BackgroundProgress background_;
  const int rank_;
  const std::vector<std::string> addresses_;
  const std::vector<int> node_of_;
  std::vector<std::optional<Word>> words_;  // by rank
  std::vector<double> lost_since_;          // by rank; 0: it is in reach
  double told_ = 0;                         // when
  Word incoming_;
  NetRequest listening_;
  std::deque<Outgoing> outgoing_;  // the requests of the oldest are over first
};

// Tags. Every communicator has ends of its own, so none names it. Three things name a message of a plan. Its number,
// which the plan gives it among those of the receiving rank, stands for queue and chunk. The slice comes next. The
// fingerprint of all calls keeps a message of another call from passing for the awaited one.
constexpr uint64_t kWordTag = Transport::kHintBit;
// Of an empty hint, which nobody receives.
constexpr uint64_t kGreetingTag = Transport::kHintBit | 1;
// A message of p2p.hpp is named by its sender and its number among those of its sender to its receiver.
constexpr uint64_t message_tag(int from, uint64_t number) {
  constexpr int kNumberBits = 40;
  return uint64_t{2} << 62 | static_cast<uint64_t>(from) << kNumberBits | (number & ((uint64_t{1} << kNumberBits) - 1));
}
// No plan has so many messages, and the call has none.
constexpr int kTrainNumber = (1 << 24) - 1;
constexpr uint64_t plan_tag(uint64_t calls, uint64_t epoch, int number) {
  constexpr int kNumberBits = 24, kSliceBits = 20, kCallBits = 18;
  constexpr auto low = [](uint64_t value, int bits) { return value & ((uint64_t{1} << bits) - 1); };
  return calls >> (64 - kCallBits) << (kNumberBits + kSliceBits) | low(epoch, kSliceBits) << kNumberBits |
         low(static_cast<uint64_t>(number), kNumberBits);
}
// Of the messages of a train, which is a call of its own.
constexpr uint64_t train_tag(uint64_t calls) { return plan_tag(calls, 0, kTrainNumber); }

}  // namespace plait
