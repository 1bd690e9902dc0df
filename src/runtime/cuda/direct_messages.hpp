// Long messages that their receiver copies straight out of the sender's buffer. Both ends agree on each on the host, as
// all ranks do on a call (direct_calls.hpp); where they do not, it goes through the inbox as any other.
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
#include "runtime/cuda/agreement_watch.hpp"
#include "runtime/cuda/copy_program.hpp"
#include "runtime/cuda/copy_turn.hpp"
#include "runtime/cuda/peer_buffers.hpp"
#include "runtime/meetings.hpp"
#include "runtime/peer_message.hpp"

namespace plait {

// How a message may go, by its size alone, so that both ends have the same in mind.
struct MessageRoute {
  std::optional<Engine> direct;         // that copies; none: through the inbox
  std::chrono::nanoseconds patience{};  // with the other end
};

// What is performed straight from buffer to buffer, of the messages of one exchange.
struct DirectExchange {
  CopyLanes copies;
  std::vector<uint64_t> agreements;      // by lane
  std::vector<const std::byte*> inputs;  // by rank, as this rank's GPU addresses them
  std::byte* output = nullptr;
  bool has_turn = false;          // copy engines copy, for which this rank has taken its turn
  std::vector<PeerMessage> rest;  // that inboxes carry, beside it
};

class DirectMessages {
 public:
  DirectMessages(CommunicatorState& state, int ranks, PeerBuffers& buffers, CopyTurn& turn,
                 const AgreementWatch::Options& options);

  // routes[m]: of messages[m]. Nothing where inboxes carry all of them; else the copies follow. Throws what ended the
  // communicator.
  std::optional<DirectExchange> agree(std::span<const PeerMessage> messages, std::span<const MessageRoute> routes,
                                      bool captured);

 private:
  // A long message, and how far its ends have come with it.
  struct End {
    enum class Stage { kApart, kProposed, kMet, kAgreed };
    const PeerMessage* message = nullptr;
    const MessageRoute* route = nullptr;
    Meetings* meetings = nullptr;
    const std::byte* source = nullptr;  // the sender's buffer, of receives
    bool is_willing = false;
    Stage stage = Stage::kApart;

    bool is_agreed() const { return stage == Stage::kAgreed; }
  };

  std::vector<End> long_ones(std::span<const PeerMessage> messages, std::span<const MessageRoute> routes);
  // Of different meetings, all at once.
  void meet(std::span<End> ends, bool captured);
  void propose(End& end, bool captured);
  bool can_be_willing(const End& end, BufferPlace& place);
  bool can_do(End& end, std::span<const Proposal> proposals);
  // What the ends have agreed on, as copies.
  DirectExchange copies_of(std::span<const End> ends, std::span<const PeerMessage> messages) const;

  const int rank_;
  PeerBuffers& buffers_;
  CopyTurn& turn_;
  const bool is_possible_;  // not where ranks share a process
  const int ranks_;
  std::vector<Meetings> receives_, sends_;  // by peer
  AgreementWatch watch_;
};

}  // namespace plait
