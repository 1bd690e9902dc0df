// Reading and writing of call records.
#include "runtime/host/board.hpp"

namespace plait {

void publish(CallLog& log, uint64_t number, const Call& call) {
  CallRecord& record = log.history[number % kCallHistory];
  // Clear, fill, then name: a reader that sees the number before and after its reads has read one call. (Release
  // stores keep the order; on x86 they are plain stores.)
  record.number.store(0, std::memory_order_relaxed);
  record.count.store(call.count, std::memory_order_release);
  record.kind.store(static_cast<uint32_t>(call.collective) | static_cast<uint32_t>(call.type) << 8 |
                        static_cast<uint32_t>(call.op) << 16,
                    std::memory_order_release);
  record.root.store(call.root, std::memory_order_release);
  record.number.store(number, std::memory_order_release);
  log.entered.store(number, std::memory_order_release);
}

bool look_up(const CallLog& log, uint64_t number, Call& call) {
  const CallRecord& record = log.history[number % kCallHistory];
  if (record.number.load(std::memory_order_acquire) != number) return false;
  const uint32_t kind = record.kind.load(std::memory_order_acquire);
  call.collective = static_cast<Collective>(kind & 0xff);
  call.type = static_cast<DataType>(kind >> 8 & 0xff);
  call.op = static_cast<ReduceOp>(kind >> 16 & 0xff);
  call.count = record.count.load(std::memory_order_acquire);
  call.root = record.root.load(std::memory_order_acquire);
  return record.number.load(std::memory_order_acquire) == number;
}

}  // namespace plait
