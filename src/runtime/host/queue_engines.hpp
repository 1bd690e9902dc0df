// The engines with which a host rank performs the queues of one slice (queue_loop.hpp): alone, or as the proxy of a
// GPU. For host_rank.cpp alone.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "runtime/driven_reduces.hpp"
#include "runtime/host/host_rank.hpp"

namespace plait {

// The engine with which advance_queue() performs one slice on this rank.
//
// Where the slice has messages, a queue that reduces long pieces one after the other passes its turn on in between. So
// the first piece is on its way while the next one is combined or copied.
class HostRank::QueueEngine {
 public:
  QueueEngine(HostRank& rank, const BoundSlice& slice, const Call& call, const PlanMessages::Turn& turn)
      : slice_(slice),
        reduce_(find_reduce(call.type, call.op)),
        bases_(rank.bases_[turn.room].data()),
        signals_(rank.signals_[turn.room].data()),
        own_signals_(rank.signals_[turn.room][rank.rank_]),
        stores_(slice.streams_scratch && !rank.one_core_ ? &rank.stores_ : nullptr),
        stamp_(stamp_of(rank.calls_, turn.epoch)),
        most_elements_(slice.requests > 0 ? kMostBytesOfTurn / size_of(call.type) : ~size_t{0}),
        rank_(rank) {
    rank.pointers_.resize(std::max<size_t>(rank.pointers_.size(), slice.most_places));
    pointers_ = rank.pointers_.data();
    if (stores_ != nullptr) stores_->begin_turn();
  }

  void turn_to(size_t) { elements_ = 0; }
  bool reduce(const BoundOperation& operation) {
    if (elements_ >= most_elements_) return false;
    elements_ += operation.elements;
    combine(operation);
    return true;
  }
  void combine(const BoundOperation& operation) {
    const BoundPlace* places = slice_.places.data() + operation.first_place;
    const int count = operation.destination_count + operation.source_count;
    for (int i = 0; i < count; ++i) pointers_[i] = bases_[places[i].base] + places[i].offset;
    ReduceArguments arguments;
    arguments.destinations = pointers_;
    arguments.destination_count = operation.destination_count;
    arguments.sources = pointers_ + operation.destination_count;
    arguments.source_count = operation.source_count;
    arguments.elements = operation.elements;
    arguments.divisor = operation.divisor;
    arguments.result_is_wide = operation.result_is_wide;
    arguments.streaming_destinations = operation.streaming_outputs;
    if (operation.has_wide_source) arguments.source_is_wide = slice_.source_is_wide.data() + operation.first_flag;
    // In place, a rank's own chunk may already be where it belongs.
    if (count == 2 && pointers_[0] == pointers_[1] && operation.divisor == 0) return;
    if (stores_ == nullptr || operation.streaming_scratch == 0) return reduce_(arguments);
    if (stores_->streams()) arguments.streaming_destinations |= operation.streaming_scratch;
    stores_->time(operation.elements, [&] { reduce_(arguments); });
  }

  void signal(const BoundOperation& operation) {
    std::byte* line = signals_[operation.peer_rank] + operation.word_offset;
    if (operation
            .carries_data) {  // the whole payload: a copy of a fixed size costs nothing, and scratch has room to read
      const BoundPlace& data = slice_.places[operation.first_place];
      std::memcpy(line + sizeof(uint64_t), bases_[data.base] + data.offset, Segment::kSignalPayload);
    }
    flag(line, 0).store(stamp_, std::memory_order_release);
  }

  bool wait(const BoundOperation& operation) {
    return flag(own_signals_, operation.word_offset).load(std::memory_order_acquire) == stamp_;
  }

  bool send(const BoundOperation& operation) { return rank_.messages_.send(operation); }
  bool receive(const BoundOperation& operation) { return rank_.messages_.receive(operation); }

 private:
  // A message of so many bytes keeps the network busy for longer than it takes to look at it.
  static constexpr size_t kMostBytesOfTurn = size_t{128} << 10;

  // The flag of a signal.
  static std::atomic<uint64_t>& flag(std::byte* signals, size_t offset) {
    return *reinterpret_cast<std::atomic<uint64_t>*>(signals + offset);
  }

  const BoundSlice& slice_;
  const ReduceFunction reduce_;
  std::byte* const* bases_;
  std::byte* const* signals_;
  std::byte* own_signals_;
  void** pointers_ = nullptr;
  StoreTrial* const stores_;  // to scratch that may go past the caches; null: none may
  // The value of a flag. The flag of another call never passes for the awaited one. Neither does one that follows calls
  // that differed but in which no rank waited.
  const uint64_t stamp_;
  const size_t most_elements_;
  size_t elements_ = 0;  // reduced in this turn
  HostRank& rank_;
};

// The same where a GPU performs the reduces that touch its memory.
class HostRank::DrivenEngine : private QueueEngine {
 public:
  // `bases`: as the GPU addresses them. They outlive this.
  DrivenEngine(HostRank& rank, const BoundSlice& slice, const Call& call, const PlanMessages::Turn& turn,
               ReduceDevice& device, const std::vector<std::byte*>& bases)
      : QueueEngine(rank, slice, call, turn), reduces_(device, slice, call, rank.ranks_, bases.data()) {}

  void turn_to(size_t queue) { reduces_.turn_to(queue); }
  bool reduce(const BoundOperation& operation) {
    if (!reduces_.is_of_cpu(operation)) return reduces_.post(operation);
    if (!reduces_.are_done()) return false;
    combine(operation);
    return true;
  }
  void signal(const BoundOperation& operation) { reduces_.keep(operation); }
  using QueueEngine::wait;
  bool send(const BoundOperation& operation) { return reduces_.are_done() && QueueEngine::send(operation); }
  bool receive(const BoundOperation& operation) { return reduces_.are_done() && QueueEngine::receive(operation); }

  bool release() {
    return reduces_.release([this](const BoundOperation& it) { QueueEngine::signal(it); });
  }
  bool is_over() { return reduces_.is_over(); }

 private:
  DrivenReduces reduces_;
};

}  // namespace plait
