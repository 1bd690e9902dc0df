// Compares the logs of two ranks.
#include "runtime/host/call_difference.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace plait {

std::optional<std::string> first_difference(const Segment& segment, LogOfStatus log, int rank, int peer) {
  const uint64_t entered = (segment.status(rank).*log).entered.load(std::memory_order_acquire);
  // Oldest first: later calls may differ only because of the first difference.
  for (uint64_t age = std::min<uint64_t>(kCallHistory, entered); age-- > 0;) {
    if (auto text = difference_at(segment, log, rank, peer, entered - age)) return text;
  }
  return std::nullopt;
}

std::optional<std::string> difference_at(const Segment& segment, LogOfStatus log, int rank, int peer, uint64_t number) {
  Call own, theirs;
  if (!look_up(segment.status(rank).*log, number, own) || !look_up(segment.status(peer).*log, number, theirs)) {
    return std::nullopt;
  }
  if (own == theirs) return std::nullopt;
  return describe_difference(number, rank, own, peer, theirs);
}

std::string describe_difference(uint64_t number, int rank, const Call& own, int peer, const Call& theirs) {
  return join("call ", number, " differs between ranks: rank ", rank, " called ", to_text(own), ", rank ", peer,
              " called ", to_text(theirs), "; ", kSameCalls);
}

std::string describe_difference(const Segment& segment, LogOfStatus log, int rank, int peer) {
  if (auto text = first_difference(segment, log, rank, peer)) return *text;
  return join("rank ", rank, " and rank ", peer, " made different calls some time ago; ", kSameCalls, "; rank ", rank,
              " last made ", last_call(segment.status(rank).*log), "; rank ", peer, " last made ",
              last_call(segment.status(peer).*log));
}

std::string last_call(const CallLog& log) {
  const uint64_t entered = log.entered.load(std::memory_order_acquire);
  Call call;
  return join("call ", entered, look_up(log, entered, call) ? ", " + to_text(call) : "");
}

}  // namespace plait
