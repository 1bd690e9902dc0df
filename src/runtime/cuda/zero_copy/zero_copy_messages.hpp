// Long messages that their receiver copies straight out of the sender's buffer. Both ends agree on each on the host, as
// all ranks do on a call (zero_copy_calls.hpp); where they do not, it goes through the inbox as any other.
//
// Only where a rank has one message each way at most in an exchange, and none to itself. Several are carried by inboxes
// as fast, and of those that are in one exchange none may wait for another: others may depend on any of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "runtime/communicator_state.hpp"
#include "runtime/cuda/memory/peer_buffers.hpp"
#include "runtime/cuda/zero_copy/agreement_watch.hpp"
#include "runtime/cuda/zero_copy/copy_engine_lock.hpp"
#include "runtime/cuda/zero_copy/copy_program.hpp"
#include "runtime/meetings.hpp"
#include "runtime/peer_message.hpp"

namespace plait {

// How a message may go, by its size alone, so that both ends have the same in mind.
struct MessageRoute {
  std::optional<Engine> zero_copy;     // that copies; none: through the inbox
  std::chrono::nanoseconds timeout{};  // with the other end
};

// What is performed straight from buffer to buffer, of the messages of one exchange.
struct ZeroCopyExchange {
  CopyQueues copies;
  std::vector<uint64_t> agreements;      // by queue
  std::vector<const std::byte*> inputs;  // by rank, as this rank's GPU addresses them
  PeerBuffers::Use use;                  // of these
  std::byte* output = nullptr;
  bool has_lock = false;          // copy engines copy, for which this rank has taken its turn
  std::vector<PeerMessage> rest;  // that inboxes carry, beside it
};

class ZeroCopyMessages {
 public:
  ZeroCopyMessages(CommunicatorState& state, int ranks, PeerBuffers& buffers, CopyEngineLock& lock,
                   const WaitLimits& limits);

  // routes[m]: of messages[m]; both stay where they are until all is agreed on. False: inboxes carry all of them. Never
  // waits.
  bool propose(std::span<const PeerMessage> messages, std::span<const MessageRoute> routes, cudaStream_t stream);
  // The next step of what was proposed, like those of calls (zero_copy_calls.hpp): none waits for a rank that has taken
  // as many. True: that was the last one. Throws what ended the communicator.
  bool advance();
  // After that. Nothing where inboxes carry all messages; else the copies follow.
  std::optional<ZeroCopyExchange> conclude();

 private:
  // A long message, and how far its ends have come with it.
  struct Endpoint {
    enum class Stage { kApart, kProposed, kMet, kAgreed };
    const PeerMessage* message = nullptr;
    const MessageRoute* route = nullptr;
    Meetings* meetings = nullptr;
    int round = 0;
    const std::byte* source = nullptr;  // the sender's buffer, of receives
    bool is_willing = false;
    Stage stage = Stage::kApart;

    bool is_agreed() const { return stage == Stage::kAgreed; }
  };

  // Long messages of which each has another meeting: the n-th of each kind with each peer is in the n-th round. Those
  // of a round meet at once, lest ranks wait in a circle, and as both ends count alike, both are in a round at one
  // step.
  struct Round {
    size_t first = 0, next = 0;  // of ends_
    std::chrono::steady_clock::time_point begin;
    bool has_met = false;
  };

  std::vector<Endpoint> long_messages(std::span<const PeerMessage> messages, std::span<const MessageRoute> routes);
  std::span<Endpoint> round() { return std::span(endpoints_).subspan(round_.first, round_.next - round_.first); }
  void begin_round();
  void meet();
  void conclude_round();
  void propose(Endpoint& endpoint);
  bool find_out_willing(const Endpoint& endpoint, BufferPlace& place);
  Engine engine(const Endpoint& endpoint) const;
  bool can_do(Endpoint& endpoint, std::span<const Proposal> proposals);
  // What the ends have agreed on, as copies.
  ZeroCopyExchange agreed_copies() const;

  const int rank_;
  PeerBuffers& buffers_;
  CopyEngineLock& lock_;
  const int ranks_;
  std::vector<Meetings> receives_, sends_;  // by peer
  AgreementWatch watch_;
  // The exchange at hand.
  std::span<const PeerMessage> messages_;
  cudaStream_t stream_ = nullptr;
  bool captured_ = false;
  std::vector<Endpoint> endpoints_;  // of long messages
  PeerBuffers::Use use_;
  Round round_;
};

}  // namespace plait
