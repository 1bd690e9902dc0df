// Zero-copy messages: long ones that the receiver copies out of the sender's buffer. Both ends agree on each message on
// the host, as all ranks do on a call (zero_copy_calls.hpp). If they do not agree, it goes through the FIFO.
//
// A message is zero-copy only if each rank has at most one send and one receive in the exchange, and none to itself.
// FIFOs carry several messages as fast. Besides, no message of an exchange may wait for another one, because other
// ranks may depend on any of them.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "runtime/agreement.hpp"
#include "runtime/communicator_state.hpp"
#include "runtime/cuda/memory/peer_buffers.hpp"
#include "runtime/cuda/zero_copy/copy_engine_lock.hpp"
#include "runtime/cuda/zero_copy/copy_program.hpp"
#include "runtime/cuda/zero_copy/zero_copy_conditions.hpp"
#include "runtime/peer_message.hpp"

namespace plait {

// How a message may be sent. It follows from the size alone, so that both ends decide alike.
struct MessageRoute {
  std::optional<Engine> zero_copy;     // the engine that copies; none: through the FIFO
  std::chrono::nanoseconds timeout{};  // for the agreement with the other end
};

// The zero-copy messages of an exchange, as copies.
struct ZeroCopyExchange {
  CopyQueues copies;
  std::vector<uint64_t> agreements;      // by queue
  std::vector<const std::byte*> inputs;  // by rank, as this rank's GPU addresses them
  PeerBuffers::Use use;                  // of these
  std::byte* output = nullptr;
  bool has_lock = false;          // copy engines copy, and this rank holds the copy-engine lock
  std::vector<PeerMessage> rest;  // messages that go through FIFOs at the same time
};

class ZeroCopyMessages {
 public:
  ZeroCopyMessages(CommunicatorState& state, int ranks, PeerBuffers& buffers, CopyEngineLock& lock,
                   const WaitLimits& limits);

  // routes[m] belongs to messages[m]; both must stay valid until the agreement is over. False: all messages go through
  // FIFOs. Never waits.
  bool propose(std::span<const PeerMessage> messages, std::span<const MessageRoute> routes, cudaStream_t stream);
  // Takes the next step of the agreement, as for calls (zero_copy_calls.hpp): it does not wait for a rank that has
  // taken as many steps. True: that was the last one. Throws the error that ended the communicator.
  bool advance();
  // After the last step. None if all messages go through FIFOs; otherwise the copies have to be enqueued next.
  std::optional<ZeroCopyExchange> agreed();

 private:
  // This rank's end of a long message.
  struct Endpoint {
    const PeerMessage* message = nullptr;
    const MessageRoute* route = nullptr;
    Agreement* agreement = nullptr;  // with the other end; there is one for each peer and direction
    int round = 0;
    const std::byte* source = nullptr;  // of a receive: the sender's buffer
    bool is_willing = false;
    bool is_agreed = false;
  };

  // Long messages whose agreements proceed together: the n-th send to each peer and the n-th receive from each. A rank
  // takes each step for all of them before it waits for one, so that ranks do not wait in a circle. Both ends count
  // alike, so a message is in the same round at both.
  struct Round {
    size_t first = 0, next = 0;  // indexes into endpoints_
    std::chrono::steady_clock::time_point begin;
    bool has_voted = false;
  };

  std::vector<Endpoint> long_messages(std::span<const PeerMessage> messages, std::span<const MessageRoute> routes);
  std::span<Endpoint> round() { return std::span(endpoints_).subspan(round_.first, round_.next - round_.first); }
  void begin_round();
  void vote();
  void commit();
  void propose(Endpoint& endpoint);
  bool find_out_willing(const Endpoint& endpoint, BufferPlace& place);
  Engine engine(const Endpoint& endpoint) const;
  bool can_do(Endpoint& endpoint, std::span<const Proposal> proposals);
  // The messages that were agreed on, as copies.
  ZeroCopyExchange agreed_copies() const;

  const int rank_;
  PeerBuffers& buffers_;
  CopyEngineLock& lock_;
  const int ranks_;
  std::vector<Agreement> receives_, sends_;  // by peer
  ZeroCopyConditions conditions_;
  // The current exchange.
  std::span<const PeerMessage> messages_;
  cudaStream_t stream_ = nullptr;
  bool captured_ = false;
  std::vector<Endpoint> endpoints_;  // by round
  PeerBuffers::Use use_;
  Round round_;
};

}  // namespace plait
