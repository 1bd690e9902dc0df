// Moves the messages of plans.
#include "runtime/host/plan_messages.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/error.hpp"
#include "runtime/host/copy.hpp"

namespace plait {
namespace {

// Pieces of at least this size may go past the caches into the inbox, as into a FIFO (p2p.cpp).
constexpr size_t kStreamingSlotBytes = 8 << 10;

// A flag of an inbox. The stamp tells that it is of this epoch: the memory has what was left in it before. It is
// written after the rest, and before anyone looks at that.
struct InboxFlag {
  std::atomic<uint64_t> stamp;
  std::atomic<uint64_t> slots;          // filled, or copied
  std::atomic<uint64_t> message_bytes;  // of the whole message

  // A short message lies behind its flag, so that both cross between cores in one cache line.
  static constexpr size_t kPayload = Segment::kSignalStride - 3 * sizeof(uint64_t);
  std::byte payload[kPayload];
};
static_assert(sizeof(InboxFlag) == Segment::kSignalStride);

void publish(InboxFlag& flag, uint64_t stamp, uint64_t slots) {
  flag.slots.store(slots, std::memory_order_release);
  if (slots == 1) flag.stamp.store(stamp, std::memory_order_release);
}

uint64_t slots_in(const InboxFlag& flag, uint64_t stamp) {
  return flag.stamp.load(std::memory_order_acquire) == stamp ? flag.slots.load(std::memory_order_acquire) : 0;
}

InboxFlag& flag_at(const Segment& segment, int receiver, uint32_t room, size_t offset) {
  return *reinterpret_cast<InboxFlag*>(segment.signals(receiver, room) + offset);
}

size_t slots_for(size_t bytes, const InboxShape& inbox) {
  return std::max<size_t>(1, (bytes + inbox.slot_bytes - 1) / inbox.slot_bytes);
}

}  // namespace

PlanMessages::PlanMessages(const Segment& segment, int rank, const Watch& watch, OtherNodes* others)
    : segment_(segment), rank_(rank), watch_(watch), others_(others) {}

void PlanMessages::begin(const BoundSlice& slice, const Current& current, const Turn& turn, const Bases& bases) {
  slice_ = &slice;
  call_ = &current.call;
  number_ = current.number;
  calls_ = current.calls;
  turn_ = turn;
  stamp_ = stamp_of(calls_, turn.epoch);
  bases_ = bases;
  const auto requests = static_cast<size_t>(slice.requests);
  transfers_.resize(std::max(transfers_.size(), requests));
  for (size_t i = 0; i < requests; ++i) {
    Transfer& transfer = transfers_[i];
    transfer.request = {};
    transfer.sending = nullptr;
    transfer.moved = transfer.slots = 0;
  }
  sending_.clear();
}

bool PlanMessages::send(const BoundOperation& operation) {
  Transfer& transfer = transfers_[static_cast<size_t>(operation.request)];
  if (operation.ends_send) return !transfer.request.is_pending() && transfer.sending == nullptr;
  if (operation.in_memory) {
    transfer.sending = &operation;
    if (!put(transfer)) sending_.push_back(operation.request);
    return true;
  }
  const std::byte* data = data_of(operation);
  if (operation.is_buffered) {
    transfer.copy.assign(data, data + operation.bytes);
    data = transfer.copy.data();
  }
  others_->send(operation.peer_rank, plan_tag(calls_, turn_.epoch, operation.message), data, operation.bytes,
                transfer.request, memory_of(operation));
  return true;
}

bool PlanMessages::receive(const BoundOperation& operation) {
  Transfer& transfer = transfers_[static_cast<size_t>(operation.request)];
  return operation.in_memory ? take(transfer, operation) : receive_over_network(transfer, operation);
}

// In turns over all messages, so that none waits for the receiver of another.
void PlanMessages::progress() {
  std::erase_if(sending_, [&](int request) { return put(transfers_[static_cast<size_t>(request)]); });
}

// Returns whether all of the message is in the inbox.
bool PlanMessages::put(Transfer& transfer) {
  const BoundOperation& operation = *transfer.sending;
  const InboxShape& inbox = operation.inbox;
  const int receiver = operation.peer_rank;
  const size_t slots = slots_for(operation.bytes, inbox);
  InboxFlag& tail = flag_at(segment_, receiver, turn_.room, inbox.tail);
  const uint64_t head = slots_in(flag_at(segment_, receiver, turn_.room, inbox.head), stamp_);
  while (transfer.slots < slots && transfer.slots < head + InboxShape::kSlots) {
    const size_t bytes = std::min(inbox.slot_bytes, operation.bytes - transfer.moved);
    std::byte* const slot = slot_of(operation, transfer, tail.payload);
    const std::byte* const data = data_of(operation) + transfer.moved;
    if (bytes >= kStreamingSlotBytes && !shares_core(receiver)) {
      stores_.begin_turn();
      stores_.time(bytes, [&] {
        copy_block(slot, data, bytes, stores_.streams());
        if (stores_.streams()) finish_streaming();
      });
    } else {
      copy_block(slot, data, bytes, false);
    }
    if (transfer.slots == 0) tail.message_bytes.store(operation.bytes, std::memory_order_relaxed);
    publish(tail, stamp_, ++transfer.slots);
    transfer.moved += bytes;
    has_moved_ = true;
  }
  if (transfer.slots < slots) return false;
  transfer.sending = nullptr;
  return true;
}

// Returns whether all of the message has come.
bool PlanMessages::take(Transfer& transfer, const BoundOperation& operation) {
  const InboxShape& inbox = operation.inbox;
  InboxFlag& tail = flag_at(segment_, rank_, turn_.room, inbox.tail);
  const uint64_t came = slots_in(tail, stamp_);
  if (came > 0 && transfer.slots == 0) {
    check_size(operation, tail.message_bytes.load(std::memory_order_relaxed));
  }
  while (transfer.slots < came) {
    const size_t bytes = std::min(inbox.slot_bytes, operation.bytes - transfer.moved);
    copy_block(data_of(operation) + transfer.moved, slot_of(operation, transfer, tail.payload), bytes, false);
    publish(flag_at(segment_, rank_, turn_.room, inbox.head), stamp_, ++transfer.slots);
    transfer.moved += bytes;
    has_moved_ = true;
  }
  return transfer.slots == slots_for(operation.bytes, inbox);
}

bool PlanMessages::receive_over_network(Transfer& transfer, const BoundOperation& operation) {
  NetRequest& request = transfer.request;
  if (request.state == NetRequest::State::kIdle) {
    others_->receive(operation.peer_rank, plan_tag(calls_, turn_.epoch, operation.message), data_of(operation),
                     operation.bytes, request, memory_of(operation));
  }
  if (request.state == NetRequest::State::kTruncated) fail_size(operation, "more");
  if (request.state != NetRequest::State::kDone) return false;
  check_size(operation, request.bytes);
  return true;
}

void PlanMessages::check_size(const BoundOperation& operation, size_t sent_bytes) const {
  if (sent_bytes != operation.bytes) fail_size(operation, join(sent_bytes / size_of(call_->type)));
}

void PlanMessages::fail_size(const BoundOperation& operation, const std::string& sent) const {
  watch_.fail_all(ErrorCode::kMismatch,
                  join("call ", number_, ", ", to_text(*call_), ": rank ", operation.peer_rank, " gives ", sent,
                       " elements to rank ", rank_, ", which expects ", operation.bytes / size_of(call_->type),
                       " from it; the giver's count of a block and the receiver's must be equal"));
}

bool PlanMessages::has_sent_all() const {
  return sending_.empty() &&
         std::ranges::none_of(transfers_, [](const Transfer& it) { return it.request.is_pending(); });
}

void PlanMessages::give_up() {
  for (Transfer& transfer : transfers_) {
    if (others_ != nullptr) others_->cancel(transfer.request);
  }
}

NetMemory PlanMessages::memory_of(const BoundOperation& operation) const {
  const bool is_of_gpu = operation.bytes > 0 && slice_->places[operation.first_place].base < bases_.of_gpu;
  return is_of_gpu ? NetMemory::kGpu : NetMemory::kHost;
}

std::byte* PlanMessages::data_of(const BoundOperation& operation) const {
  return address_of(slice_->places[operation.first_place]);
}

// Where the next piece of a message lies.
std::byte* PlanMessages::slot_of(const BoundOperation& operation, const Transfer& transfer, std::byte* payload) const {
  if (operation.bytes <= InboxFlag::kPayload) return payload;
  const InboxShape& inbox = operation.inbox;
  return address_of(slice_->places[operation.first_place + 1]) + transfer.slots % inbox.kSlots * inbox.slot_bytes;
}

// No other cache holds the slots then, and ordinary stores are faster.
bool PlanMessages::shares_core(int peer) const {
  const auto core = [&](int rank) { return segment_.status(rank).core.load(std::memory_order_relaxed); };
  return core(peer) == core(rank_);
}

}  // namespace plait
