// Shares and merges clocks.
#include "plan/clock.hpp"

#include <algorithm>
#include <utility>

namespace plait {

Clock::Knowledge::Knowledge(ClockStore& store)
    : store_(store),
      pages_(ClockStore::pages(store.components_)),
      counted_(store, ClockStore::index_bytes(store.components_)) {}

Clock::Knowledge::Knowledge(const Knowledge& other)
    : store_(other.store_), pages_(other.pages_), counted_(store_, ClockStore::index_bytes(store_.components_)) {}

Clock::Times& Clock::Knowledge::own(SharedPage& page) {
  if (page.use_count() != 1) page = std::make_shared<ClockStore::Page>(store_, page ? page->times : Times{});
  return page->times;
}

void Clock::Knowledge::raise(size_t component, int32_t time) {
  if (this->time(component) >= time) return;
  own(pages_[component / kPageComponents])[component % kPageComponents] = time;
}

void Clock::Knowledge::merge(const Knowledge& other) {
  for (size_t i = 0; i < pages_.size(); ++i) {
    if (!other.pages_[i] || other.pages_[i] == pages_[i]) continue;
    if (pages_[i]) {
      merge(pages_[i], other.pages_[i]);
    } else {
      pages_[i] = other.pages_[i];
    }
  }
}

void Clock::Knowledge::merge(SharedPage& mine, const SharedPage& theirs) {
  int32_t mine_lacks = 0, theirs_lacks = 0;  // as wide as times, so that compilers compare several at once
  for (size_t i = 0; i < kPageComponents; ++i) {
    mine_lacks |= -static_cast<int32_t>(mine->times[i] < theirs->times[i]);
    theirs_lacks |= -static_cast<int32_t>(theirs->times[i] < mine->times[i]);
  }
  if (theirs_lacks == 0) {
    mine = theirs;  // also where both know the same: one page is enough
  } else if (mine_lacks != 0) {
    Times& times = own(mine);
    for (size_t i = 0; i < kPageComponents; ++i) times[i] = std::max(times[i], theirs->times[i]);
  }
}

int Clock::first_unknown(int ranks) const {
  int rank = 0;
  while (rank < ranks && knows(rank, 1)) ++rank;
  return rank;
}

void Clock::hear(Clock other) {
  // A queue that has heard of an operation has heard of all that the operation's queue had heard of by then.
  if (knows(other.component_, other.time_)) return;
  // Shared knowledge must not change. Knowledge that nobody shares can grow.
  if (heard_.use_count() != 1) std::swap(heard_, other.heard_);
  if (heard_.use_count() != 1) {
    heard_ = heard_ ? std::make_shared<Knowledge>(*heard_) : std::make_shared<Knowledge>(*store_);
  }
  if (other.heard_) heard_->merge(*other.heard_);
  heard_->raise(static_cast<size_t>(other.rank_), 1);
  heard_->raise(static_cast<size_t>(other.component_), other.time_);
}

}  // namespace plait
