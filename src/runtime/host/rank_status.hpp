// The status that a rank publishes about itself in shared memory, for peers that wait too long and want to know why.
//
// A rank writes only its own status, with plain stores that cost nothing while nobody reads them. Others read it only
// after they have waited for a while. Everything is atomic, since a read may come at any moment.
//
// How ranks notice that their calls differ: each log keeps a fingerprint of all calls of its rank, so ranks that once
// called differently never agree again.
// - A rank that waits for a signal on the host waits for one with the same fingerprint.
// - No rank waits for any other if each broadcasts as the root, or each gathers to another one. On the host such a rank
//   waits up to kSmallRooms slices later, until others are done with the memory that it is about to reuse. The value
//   that it reads for that carries their fingerprint (completed).
// - On GPUs a thread of each rank compares the logs now and then (Watchdog). Hosts may be thousands of calls apart
//   there, so logs keep the fingerprint of every 64th call for longer (kCheckpoints).
// - A rank that leaves compares the logs once more (last_look.hpp).
//
// The alternative was to compare the logs with every 64th call on the host, too. In a loop of calls it was as fast. But
// it reads two more cache lines of each peer, to which the peer writes with every call, and all calls pay for that, not
// only those in which nobody waits. And a difference shows after up to 64 calls, when the logs no longer say which call
// it was.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "runtime/call.hpp"
#include "runtime/peer_message.hpp"

namespace plait {

enum class RankState : uint32_t { kAbsent, kPresent, kClosed };

// One call, as its rank made it. `number` is cleared first and written last.
struct alignas(64) CallRecord {
  std::atomic<uint64_t> number{0};
  std::atomic<uint64_t> count{0};
  std::atomic<uint32_t> kind{0};  // collective, type, operation and flags (split, by counts), one byte each
  std::atomic<int32_t> root{0};
  std::atomic<uint32_t> order{0};
  std::atomic<uint64_t> plan{0};
  std::atomic<uint64_t> counts{0};
  std::atomic<uint64_t> calls{0};  // fingerprint of this call and all calls before it
};

// A stamp is an epoch, and above it as many bits as fit of the fingerprint of all calls up to then.
inline constexpr int kEpochBits = 40;
constexpr uint64_t stamp_of(uint64_t calls, uint64_t epoch) {
  return calls >> kEpochBits << kEpochBits | (epoch & ((uint64_t{1} << kEpochBits) - 1));
}
// Returns by how many epochs a stamp comes after `epoch`; negative if it comes before. `epoch` may be another stamp.
// The distance must be less than half the range of epochs.
constexpr int64_t epochs_after(uint64_t stamp, uint64_t epoch) {
  return static_cast<int64_t>((stamp - epoch) << (64 - kEpochBits)) >> (64 - kEpochBits);
}

inline constexpr int64_t kNotWaiting = -1;
inline constexpr int64_t kWaitingForScratch = -2;  // until others have completed an earlier call
inline constexpr int64_t kWaitingForMessage = -3;  // in an exchange
inline constexpr int64_t kWaitingForTrain = -4;    // of messages that measure the network

inline constexpr int kCallHistory = 64;      // number of calls of a rank that peers can look up: twice kSmallRooms
inline constexpr int kCheckpoints = 64;      // number of older calls whose fingerprints are kept
inline constexpr int kCheckpointCalls = 64;  // distance between those

// The last calls of a rank, and how many it has made.
struct CallLog {
  alignas(64) std::atomic<uint64_t> entered{0};
  std::atomic<uint64_t> checkpoints[kCheckpoints] = {};
  CallRecord history[kCallHistory];
};

// The last exchange of messages of a rank, and how many it has made. `stamp` tells whether the message is complete.
struct alignas(64) P2pLog {
  std::atomic<uint64_t> entered{0};
  std::atomic<uint64_t> completed{0};
  std::atomic<uint64_t> after_call{0};  // number of the last call before it
  std::atomic<uint64_t> stamp{0};       // of the message: the exchange's first one, or the one that the rank waits for
  std::atomic<uint64_t> number{0};      // among the messages from that sender to that receiver
  std::atomic<uint64_t> count{0};
  std::atomic<uint32_t> kind{0};  // send or receive, and type, one byte each
  std::atomic<int32_t> peer{0};
};

// A message and its number, from 1, among those from its sender to its receiver.
struct NumberedMessage {
  PeerMessage message;  // without its buffer if it was looked up
  uint64_t number = 0;
};

struct RankStatus {
  // The stamp of the last slice of a message that this rank has completed. Peers read it when they are about to reuse
  // scratch memory.
  alignas(64) std::atomic<uint64_t> completed{0};
  // The core on which the rank ran when its last call began. Written only when it has changed.
  std::atomic<int32_t> core{-1};
  std::atomic<bool> knows_failure{false};  // the communicator has failed, and the rank's user has been told

  alignas(64) std::atomic<uint64_t> completed_call{0};
  std::atomic<RankState> state{RankState::kAbsent};
  std::atomic<int32_t> pid{0};
  std::atomic<int64_t> waiting{kNotWaiting};  // during a long wait: queue << 32 | operation, or another reason

  P2pLog exchanges;  // of messages on host memory

  CallLog calls;  // on host memory
  // On the memory of the rank's GPU, numbered separately. The host does not see when they end.
  CallLog device_calls;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free,
              "shared memory needs lock-free atomics");

// Writes `call` as call `number` of the log's rank, which follows its last call. Returns the fingerprint of all calls
// so far: ranks that once called differently never agree again.
uint64_t publish(CallLog& log, uint64_t number, const Call& call);
// Reads call `number`, if the log still has it.
bool look_up(const CallLog& log, uint64_t number, Call& call);
// Whether two ranks have made different calls, as far as the logs tell. They are compared up to the last call that both
// have made, or, if one rank is far ahead, up to the last checkpoint before that call.
bool differ(const CallLog& log, const CallLog& other);

// Writes a message of the log's rank.
void publish(P2pLog& log, const NumberedMessage& message);
// Reads the message, if there is one that is not being written just now.
bool look_up(const P2pLog& log, NumberedMessage& message);
// "receive of 1000 float32 from rank 3 (message 7 from rank 3 to rank 0)", for a message of rank 0.
std::string to_text(const NumberedMessage& message, int rank);

}  // namespace plait
