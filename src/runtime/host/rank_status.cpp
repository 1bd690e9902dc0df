// Writes and reads the records of calls and messages.
#include "runtime/host/rank_status.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"

namespace plait {
namespace {

// The bit of a stamp that says that its message is being written.
constexpr uint64_t kBeingWritten = uint64_t{1} << 63;

uint64_t after_call(uint64_t calls, const Call& call) { return (calls ^ signature(call)) * 0x9e3779b97f4a7c15ULL; }

// The slot for the fingerprint of call `number`, a multiple of kCheckpointCalls.
constexpr size_t checkpoint_at(uint64_t number) { return number / kCheckpointCalls % kCheckpoints; }

// Returns the fingerprint of all calls up to call `number`, if there is such a call and the log still has it among its
// last.
std::optional<uint64_t> fingerprint(const CallLog& log, uint64_t number) {
  const CallRecord& record = log.history[number % kCallHistory];
  if (number == 0 || record.number.load(std::memory_order_acquire) != number) return std::nullopt;
  const uint64_t calls = record.calls.load(std::memory_order_acquire);
  if (record.number.load(std::memory_order_acquire) != number) return std::nullopt;
  return calls;
}

// Returns the fingerprint at call `number`, a multiple of kCheckpointCalls, if the log still has it there. The log's
// rank has made that call.
std::optional<uint64_t> older_fingerprint(const CallLog& log, uint64_t number) {
  const uint64_t calls = log.checkpoints[checkpoint_at(number)].load(std::memory_order_acquire);
  // The slot is valid until the next call that uses it begins to be written.
  const uint64_t next = number + uint64_t{kCheckpoints} * kCheckpointCalls;
  if (number == 0 || log.entered.load(std::memory_order_acquire) + 1 >= next) return std::nullopt;
  return calls;
}

bool are_unequal(const std::optional<uint64_t>& a, const std::optional<uint64_t>& b) { return a && b && *a != *b; }

}  // namespace

uint64_t publish(CallLog& log, uint64_t number, const Call& call) {
  CallRecord& record = log.history[number % kCallHistory];
  const uint64_t before = log.history[(number - 1) % kCallHistory].calls.load(std::memory_order_relaxed);
  const uint64_t calls = after_call(before, call);
  // Clear, fill, then set the number: a reader that sees the same number before and after its reads has read one call.
  // (Release stores keep the order; on x86 they are plain stores.)
  record.number.store(0, std::memory_order_relaxed);
  record.count.store(call.count, std::memory_order_release);
  record.kind.store(static_cast<uint32_t>(call.collective) | static_cast<uint32_t>(call.type) << 8 |
                        static_cast<uint32_t>(call.op) << 16 | static_cast<uint32_t>(call.is_split) << 24 |
                        static_cast<uint32_t>(call.by_counts) << 25 | static_cast<uint32_t>(call.is_blocking) << 26 |
                        static_cast<uint32_t>(call.is_agreement) << 27 |
                        static_cast<uint32_t>(call.measures_network) << 28,
                    std::memory_order_release);
  record.root.store(call.root, std::memory_order_release);
  record.order.store(call.order, std::memory_order_release);
  record.plan.store(call.plan, std::memory_order_release);
  record.counts.store(call.counts, std::memory_order_release);
  record.calls.store(calls, std::memory_order_release);
  record.number.store(number, std::memory_order_release);
  if (number % kCheckpointCalls == 0) log.checkpoints[checkpoint_at(number)].store(calls, std::memory_order_release);
  log.entered.store(number, std::memory_order_release);
  return calls;
}

bool look_up(const CallLog& log, uint64_t number, Call& call) {
  const CallRecord& record = log.history[number % kCallHistory];
  if (record.number.load(std::memory_order_acquire) != number) return false;
  const uint32_t kind = record.kind.load(std::memory_order_acquire);
  call.collective = static_cast<Collective>(kind & 0xff);
  call.type = static_cast<DataType>(kind >> 8 & 0xff);
  call.op = static_cast<ReduceOp>(kind >> 16 & 0xff);
  call.is_split = (kind >> 24 & 1) != 0;
  call.by_counts = (kind >> 25 & 1) != 0;
  call.is_blocking = (kind >> 26 & 1) != 0;
  call.is_agreement = (kind >> 27 & 1) != 0;
  call.measures_network = (kind >> 28 & 1) != 0;
  call.count = record.count.load(std::memory_order_acquire);
  call.root = record.root.load(std::memory_order_acquire);
  call.order = record.order.load(std::memory_order_acquire);
  call.plan = record.plan.load(std::memory_order_acquire);
  call.counts = record.counts.load(std::memory_order_acquire);
  return record.number.load(std::memory_order_acquire) == number;
}

bool differ(const CallLog& log, const CallLog& other) {
  const uint64_t both =
      std::min(log.entered.load(std::memory_order_acquire), other.entered.load(std::memory_order_acquire));
  const uint64_t older = both / kCheckpointCalls * kCheckpointCalls;
  return are_unequal(fingerprint(log, both), fingerprint(other, both)) ||
         are_unequal(older_fingerprint(log, older), older_fingerprint(other, older));
}

void publish(P2pLog& log, const NumberedMessage& numbered) {
  const uint64_t stamp = log.stamp.load(std::memory_order_relaxed) + 1;
  const PeerMessage& message = numbered.message;
  log.stamp.store(stamp | kBeingWritten, std::memory_order_relaxed);
  log.number.store(numbered.number, std::memory_order_release);
  log.count.store(message.count, std::memory_order_release);
  log.kind.store(static_cast<uint32_t>(message.kind) | static_cast<uint32_t>(message.type) << 8,
                 std::memory_order_release);
  log.peer.store(message.peer, std::memory_order_release);
  log.stamp.store(stamp, std::memory_order_release);
}

bool look_up(const P2pLog& log, NumberedMessage& numbered) {
  const uint64_t stamp = log.stamp.load(std::memory_order_acquire);
  if (stamp == 0 || (stamp & kBeingWritten) != 0) return false;
  PeerMessage& message = numbered.message;
  numbered.number = log.number.load(std::memory_order_acquire);
  message.count = log.count.load(std::memory_order_acquire);
  const uint32_t kind = log.kind.load(std::memory_order_acquire);
  message.kind = static_cast<PeerMessage::Kind>(kind & 0xff);
  message.type = static_cast<DataType>(kind >> 8 & 0xff);
  message.peer = log.peer.load(std::memory_order_acquire);
  return log.stamp.load(std::memory_order_acquire) == stamp;
}

std::string to_text(const NumberedMessage& numbered, int rank) {
  const PeerMessage& message = numbered.message;
  const bool sends = message.kind == PeerMessage::Kind::kSend;
  return join(to_text(message), " (message ", numbered.number, " from rank ", sends ? rank : message.peer, " to rank ",
              sends ? message.peer : rank, ")");
}

}  // namespace plait
