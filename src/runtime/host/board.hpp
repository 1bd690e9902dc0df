// What ranks publish about themselves in shared memory: for peers that wait too long and want to know why.
//
// A rank writes only its own board, with plain stores that cost it nothing as long as nobody looks; others look only
// when they have waited for a while. Everything is atomic, since a look may come at any moment.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/call.hpp"

namespace plait {

enum class RankState : uint32_t { kAbsent, kPresent, kClosed };

// One call, as its rank made it. `number` is written last and cleared first.
struct alignas(64) CallRecord {
  std::atomic<uint64_t> number{0};
  std::atomic<uint64_t> count{0};
  std::atomic<uint32_t> kind{0};  // collective, type and operation, a byte each
  std::atomic<int32_t> root{0};
};

inline constexpr int64_t kNotWaiting = -1;
inline constexpr int64_t kWaitingForScratch = -2;  // until others are done with an earlier call

inline constexpr int kCallHistory = 16;  // calls of a rank that peers can look up

// The last calls of a rank, and how many it has made.
struct CallLog {
  alignas(64) std::atomic<uint64_t> entered{0};
  CallRecord history[kCallHistory];
};

struct RankBoard {
  // The last slice of a message that this rank is done with. Peers that are about to reuse scratch memory read it.
  alignas(64) std::atomic<uint64_t> completed_epoch{0};
  // Where it ran when its last call began; written only when that has changed.
  std::atomic<int32_t> core{-1};

  alignas(64) std::atomic<uint64_t> completed_call{0};
  std::atomic<RankState> state{RankState::kAbsent};
  std::atomic<int32_t> pid{0};
  std::atomic<int64_t> waiting{kNotWaiting};  // while it waits for long: lane << 32 | operation, or why else

  CallLog calls;  // on host memory
  CallLog
      device_calls;  // on the memory of the rank's GPU, numbered by themselves: when they end, the host does not see
};

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free,
              "shared memory needs lock-free atomics");

// Writes `call` as call `number` of the log's rank.
void publish(CallLog& log, uint64_t number, const Call& call);
// Reads call `number`, if the log still has it.
bool look_up(const CallLog& log, uint64_t number, Call& call);

}  // namespace plait
