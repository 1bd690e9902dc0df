// Where the messages of a plan between ranks of one host lie in shared memory. Both ends compute it alike.
//
// The scratch of a rank is divided into an inbox for each message that it receives, which is a ring of slots. So a
// message of any size passes, and its receiver takes a slot while the sender fills the next one. The inbox has two
// flags among the rank's signals, after those of the plan. In the tail the sender counts the slots that it has filled.
// In the head the receiver counts those that it has copied.
#pragma once

#include <algorithm>
#include <cstddef>

#include "plan/plan.hpp"

namespace plait {

struct InboxShape {
  size_t offset = 0;  // bytes from the start of the receiver's scratch
  size_t slot_bytes = 0;
  size_t tail = 0, head = 0;  // the flags, bytes from the start of the receiver's signals

  static constexpr size_t kSlots = 4;
  static constexpr size_t kLine = 64;

  // Signals that a rank needs for a plan whose messages all come through inboxes.
  static int signals_of(const RankPlan& rank) { return rank.signals + 2 * rank.messages; }

  // The inbox for message `number` of a rank. `slot_bytes` is 0 if its scratch is too small for that.
  static InboxShape of(const RankPlan& receiver, int number, size_t scratch_bytes, size_t signal_stride) {
    constexpr size_t kMostSlotBytes = 64 << 10;
    const auto messages = static_cast<size_t>(receiver.messages), at = static_cast<size_t>(number);
    const size_t inbox_bytes = scratch_bytes / messages / kLine * kLine;
    const size_t first = static_cast<size_t>(receiver.signals);
    return {at * inbox_bytes, std::min(kMostSlotBytes, inbox_bytes / kSlots / kLine * kLine),
            (first + at) * signal_stride, (first + messages + at) * signal_stride};
  }
};

}  // namespace plait
