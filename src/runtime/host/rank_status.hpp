// What ranks publish about themselves in shared memory: for peers that wait too long and want to know why.
//
// A rank writes only its own status, with plain stores that cost it nothing as long as nobody looks; others look only
// when they have waited for a while. Everything is atomic, since a look may come at any moment.
//
// How ranks notice that their calls differ. Each log keeps a fingerprint of all calls of its rank: ranks that once
// called differently never agree again.
// - Whoever waits for a signal, on the host, waits for one with the same fingerprint.
// - Nobody waits for anybody where each rank broadcasts as the root, or each gathers to another one. On the host such a
//   rank waits two slices later, until others are done with the memory that it is about to reuse. The word that it
//   reads for that carries their fingerprint (completed).
// - On GPUs a thread of each rank compares the logs now and then (Watchdog). Hosts may be thousands of calls apart
//   there, so logs keep the fingerprint of every 64th call for longer (kCheckpoints).
// - A rank that leaves compares the logs once more (last_look.hpp).
// The other design was to compare the logs on the host, too, with every 64th call. In a loop of calls it was as fast,
// but it reads two more cache lines of each peer, on which they write with every call; all calls pay for that, not only
// those that nobody waits for; and a difference shows after up to 64 calls, when the logs no longer say which it was.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "runtime/call.hpp"
#include "runtime/peer_message.hpp"

namespace plait {

enum class RankState : uint32_t { kAbsent, kPresent, kClosed };

// One call, as its rank made it. `number` is written last and cleared first.
struct alignas(64) CallRecord {
  std::atomic<uint64_t> number{0};
  std::atomic<uint64_t> count{0};
  std::atomic<uint32_t> kind{0};  // collective, type, operation and whether it is a division, a byte each
  std::atomic<int32_t> root{0};
  std::atomic<uint32_t> order{0};
  std::atomic<uint64_t> plan{0};
  std::atomic<uint64_t> calls{0};  // a fingerprint of this call and of all before it
};

// An epoch, and above it what there is room for of the fingerprint of all calls up to then.
inline constexpr int kEpochBits = 40;
constexpr uint64_t stamp_of(uint64_t calls, uint64_t epoch) {
  return calls >> kEpochBits << kEpochBits | (epoch & ((uint64_t{1} << kEpochBits) - 1));
}
// By how many epochs a stamp comes after `epoch`, or after that of another stamp, from which it is less than half of
// all away; negative where it comes before.
constexpr int64_t epochs_after(uint64_t stamp, uint64_t epoch) {
  return static_cast<int64_t>((stamp - epoch) << (64 - kEpochBits)) >> (64 - kEpochBits);
}

inline constexpr int64_t kNotWaiting = -1;
inline constexpr int64_t kWaitingForScratch = -2;  // until others are done with an earlier call
inline constexpr int64_t kWaitingForMessage = -3;  // in an exchange

inline constexpr int kCallHistory = 16;      // calls of a rank that peers can look up
inline constexpr int kCheckpoints = 64;      // older calls of which it keeps the fingerprint
inline constexpr int kCheckpointCalls = 64;  // from one of these to the next

// The last calls of a rank, and how many it has made.
struct CallLog {
  alignas(64) std::atomic<uint64_t> entered{0};
  std::atomic<uint64_t> checkpoints[kCheckpoints] = {};
  CallRecord history[kCallHistory];
};

// The last exchange of messages of a rank, and how many it has made. `stamp` says that the message is whole.
struct alignas(64) P2pLog {
  std::atomic<uint64_t> entered{0};
  std::atomic<uint64_t> completed{0};
  std::atomic<uint64_t> after_call{0};  // the number of the call before it
  std::atomic<uint64_t> stamp{0};       // of the message: its first one, or the one that it waits for
  std::atomic<uint64_t> number{0};      // of the messages from the one rank to the other
  std::atomic<uint64_t> count{0};
  std::atomic<uint32_t> kind{0};  // send or receive, and type, a byte each
  std::atomic<int32_t> peer{0};
};

// A message, and which it is of those from the one rank to the other, from 1.
struct NumberedMessage {
  PeerMessage message;  // without its buffer, where it was looked up
  uint64_t number = 0;
};

struct RankStatus {
  // The stamp of the last slice of a message that this rank is done with. Peers that are about to reuse scratch memory
  // read it.
  alignas(64) std::atomic<uint64_t> completed{0};
  // Where it ran when its last call began; written only when that has changed.
  std::atomic<int32_t> core{-1};
  std::atomic<bool> knows_failure{false};  // the communicator has failed, and its user has been told

  alignas(64) std::atomic<uint64_t> completed_call{0};
  std::atomic<RankState> state{RankState::kAbsent};
  std::atomic<int32_t> pid{0};
  std::atomic<int64_t> waiting{kNotWaiting};  // while it waits for long: queue << 32 | operation, or why else

  P2pLog exchanges;  // of messages on host memory

  CallLog calls;  // on host memory
  // On the memory of the rank's GPU, numbered by themselves: when they end, the host does not see.
  CallLog device_calls;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free,
              "shared memory needs lock-free atomics");

// Writes `call` as call `number` of the log's rank, which follows the one before it. Gives the fingerprint of all calls
// so far: ranks that once called differently never agree again.
uint64_t publish(CallLog& log, uint64_t number, const Call& call);
// Reads call `number`, if the log still has it.
bool look_up(const CallLog& log, uint64_t number, Call& call);
// Whether two ranks have made different calls, as far as the logs tell: up to the last call that both have made, or to
// the last checkpoint before it where one is far ahead.
bool differ(const CallLog& log, const CallLog& other);

// Writes a message of the log's rank.
void publish(P2pLog& log, const NumberedMessage& message);
// Reads it, if there is one that is not just being written.
bool look_up(const P2pLog& log, NumberedMessage& message);
// "receive of 1000 float32 from rank 3 (message 7 from rank 3 to rank 0)", where it is one of rank 0.
std::string to_text(const NumberedMessage& message, int rank);

}  // namespace plait
