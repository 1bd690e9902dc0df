// The messages of one rank on shared memory: its ends of all fifos, and the exchange that is under way.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/host/fifo.hpp"
#include "runtime/host/segment.hpp"
#include "runtime/host/watch.hpp"
#include "runtime/peer_message.hpp"

namespace plait {

class P2p final : public Wait {
 public:
  // Both outlive it.
  P2p(const Segment& segment, int rank, const Watch& watch);

  // Takes up messages, which must be as check_messages() wants them, at least one. Copies those with this rank itself.
  void begin(std::span<const PeerMessage> messages);
  // Moves a part of every message that can move. True if one did. Throws kMismatch, for all ranks, where the ends of a
  // message differ in size.
  bool advance();
  bool done() const { return heads_.empty(); }
  // The first of those begun.
  const NumberedMessage& first() const { return first_; }

  void publish(RankStatus& status) const override;
  void examine(bool long_wait) override;
  std::string what() const override;
  std::string where() const override { return {}; }
  std::vector<int> culprits() const override;

 private:
  static constexpr int kNone = -1;

  struct Transfer {
    NumberedMessage numbered;
    size_t bytes = 0;
    size_t moved = 0;        // bytes
    bool streaming = false;  // past the caches
    int next = kNone;        // of the same kind, with the same peer
  };
  // This rank's end of all messages to one peer, or from it.
  template <class End>
  struct Line {
    explicit Line(const Fifo& fifo) : end(fifo) {}
    End end;
    uint64_t messages = 0;
    int last = kNone;  // transfer of this exchange
  };
  enum class Step { kBlocked, kMoved, kFinished };

  template <class End>
  void queue(const PeerMessage& message, Line<End>& line);
  Step advance(Transfer& transfer);
  bool streams(const PeerMessage& message) const;
  bool can_move(const Transfer& transfer);
  void check_size(const Transfer& transfer, size_t sent_bytes) const;
  // A receive, if there is one.
  const Transfer& blocked() const;
  std::string describe(const Transfer& transfer) const;

  const Segment& segment_;
  const int rank_;
  const Watch& watch_;
  std::vector<Line<FifoSource>> sends_;  // by peer
  std::vector<Line<FifoSink>> receives_;
  std::vector<Transfer> transfers_;
  std::vector<int> heads_;  // of the transfers of one kind with one peer that are not done, the first
  NumberedMessage first_;
};

}  // namespace plait
