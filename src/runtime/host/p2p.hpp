// Point-to-point messages of one rank: its endpoints of all FIFOs on shared memory, the ranks on other nodes, and the
// current exchange.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/host/fifo.hpp"
#include "runtime/host/other_nodes.hpp"
#include "runtime/host/segment.hpp"
#include "runtime/host/watch.hpp"
#include "runtime/peer_message.hpp"

namespace plait {

class P2p final : public Wait {
 public:
  // The segment, the watch and `others`, the ranks on other nodes if there are any, outlive this object.
  P2p(const Segment& segment, int rank, const Watch& watch, OtherNodes* others);

  // Begins an exchange of at least one message. check_messages() must accept the messages. Copies those that this rank
  // sends to itself. `is_wanted` may be empty.
  void begin(std::span<const PeerMessage> messages, const WantedCheck& is_wanted = {});
  // Moves a part of every message that can move, and returns whether any did. Throws kMismatch for all ranks if the
  // ends of a message differ in size.
  bool advance();
  bool done() const { return pending_.empty(); }
  // After connections to other nodes were cut: no message is left in the memory of callers.
  void give_up();
  // The first message of the exchange.
  const NumberedMessage& first() const { return first_; }

  void publish(RankStatus& status) const override;
  void examine(bool long_wait) override;
  std::string what() const override;
  std::string where() const override { return {}; }
  std::vector<int> culprits() const override;
  bool is_wanted() const override { return !is_wanted_ || is_wanted_(); }

 private:
  static constexpr int kNone = -1;

  struct Transfer {
    NumberedMessage numbered;
    size_t bytes = 0;
    size_t moved = 0;        // bytes
    bool streaming = false;  // moves past the caches, or may do so
    int next = kNone;        // the next transfer of the same kind with the same peer
    NetRequest request;      // to another node
  };
  // This rank's endpoint of all messages to one peer, or from it.
  template <class FifoEnd>
  struct Endpoint {
    explicit Endpoint(const Fifo& memory) : fifo(memory) {}
    FifoEnd fifo;
    uint64_t messages = 0;
    int last = kNone;  // its last transfer in this exchange
  };
  enum class Step { kBlocked, kMoved, kFinished };

  template <class FifoEnd>
  void enqueue(const PeerMessage& message, Endpoint<FifoEnd>& endpoint);
  Step advance(Transfer& transfer);
  Step advance_over_network(Transfer& transfer);
  bool is_elsewhere(int peer) const { return others_ != nullptr && others_->has(peer); }
  bool may_stream(const PeerMessage& message) const;
  bool can_move(const Transfer& transfer);
  void check_size(const Transfer& transfer, size_t sent_bytes) const;
  [[noreturn]] void fail_size(const Transfer& transfer, const std::string& sent) const;
  // A transfer that cannot move: a receive, if there is one.
  const Transfer& blocked() const;
  std::string describe(const Transfer& transfer) const;

  const Segment& segment_;
  const int rank_;
  const Watch& watch_;
  OtherNodes* const others_;
  std::vector<Endpoint<FifoSender>> sends_;  // by peer
  std::vector<Endpoint<FifoReceiver>> receives_;
  std::vector<Transfer> transfers_;
  std::vector<int> pending_;  // the first unfinished transfer of each kind with each peer
  NumberedMessage first_;
  WantedCheck is_wanted_;  // of the current exchange
};

}  // namespace plait
