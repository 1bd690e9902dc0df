// Shares and merges clocks.
#include "plan/clock.hpp"

#include <algorithm>
#include <utility>

namespace plait {

Clock::Knowledge::Knowledge(ClockStore& from) : store(from) {
  // Reserve room among the spare ones now: nothing may fail when this one dies.
  const size_t all = store.spare_.size() + store.held_ + 1;
  if (store.spare_.capacity() < all) store.spare_.reserve(2 * all);
  if (store.spare_.empty()) {
    words.resize(ClockStore::words(store.ranks_, store.queues_));
  } else {
    words = std::move(store.spare_.back());
    store.spare_.pop_back();
    std::fill(words.begin(), words.end(), 0);
  }
  ++store.held_;
}

Clock::Knowledge::~Knowledge() {
  --store.held_;
  store.spare_.push_back(std::move(words));
}

void Clock::Knowledge::merge(const Knowledge& other) {
  const size_t queues = store.queues_;
  for (size_t i = 0; i < queues; ++i) words[i] = std::max(words[i], other.words[i]);
  for (size_t i = queues; i < words.size(); ++i) words[i] |= other.words[i];
}

void Clock::Knowledge::add_rank(size_t rank) {
  words[store.queues_ + rank / 32] = static_cast<int32_t>(word_of(rank) | uint32_t{1} << rank % 32);
}

bool Clock::knows(int component, int32_t time) const {
  if (component == component_) return time_ >= time;
  if (component == rank_) return true;
  const size_t ranks = store_->ranks_, index = static_cast<size_t>(component);
  if (index < ranks) return heard_ && heard_->has_rank(index);
  return (heard_ ? heard_->words[index - ranks] : 0) >= time;
}

void Clock::hear(Clock other) {
  // A queue that has heard of an operation has heard of all that the operation's queue had heard of by then.
  if (knows(other.component_, other.time_)) return;
  // Shared knowledge must not change. Knowledge that nobody shares can grow.
  if (heard_.use_count() != 1) std::swap(heard_, other.heard_);
  if (heard_.use_count() != 1) {
    auto grown = std::make_shared<Knowledge>(*store_);
    if (heard_) grown->merge(*heard_);
    heard_ = std::move(grown);
  }
  if (other.heard_) heard_->merge(*other.heard_);
  heard_->add_rank(static_cast<size_t>(other.rank_));
  int32_t& queue = heard_->words[static_cast<size_t>(other.component_) - store_->ranks_];
  queue = std::max(queue, other.time_);
}

}  // namespace plait
