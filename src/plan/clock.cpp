// Shares and merges clocks.
#include "plan/clock.hpp"

#include <algorithm>
#include <utility>

namespace plait {

ClockStore::Comparison ClockStore::compare(const Page& first, const Page& second) {
  if (first.writer != second.writer) return compare_times(first, second);
  return {first.version, second.version, first.version < second.version, second.version < first.version};
}

const ClockStore::Comparison& ClockStore::compare_times(const Page& first, const Page& second) {
  // Odd numbers without a pattern, so that versions in a row are far apart.
  const uint64_t mixed = first.version * 0x9E3779B97F4A7C15u + second.version * 0xC2B2AE3D27D4EB4Fu;
  Comparison& it = comparisons_[(mixed >> 32) % comparisons_.size()];
  if (it.first == first.version && it.second == second.version) return it;
  int32_t first_lacks = 0, second_lacks = 0;  // as wide as times, so that compilers compare several at once
  for (size_t i = 0; i < kPageComponents; ++i) {
    first_lacks |= -static_cast<int32_t>(first.times[i] < second.times[i]);
    second_lacks |= -static_cast<int32_t>(second.times[i] < first.times[i]);
  }
  return it = {first.version, second.version, first_lacks != 0, second_lacks != 0};
}

ClockStore::Knowledge::Knowledge(ClockStore& store)
    : store_(store), pages_(pages(store.components_)), counted_(store, index_bytes(store.components_)) {}

ClockStore::Knowledge::Knowledge(const Knowledge& other)
    : store_(other.store_), pages_(other.pages_), counted_(store_, index_bytes(store_.components_)) {}

ClockStore::Times& ClockStore::Knowledge::own(SharedPage& page, uint64_t writer) {
  if (page.use_count() != 1) page = std::make_shared<Page>(store_, page ? page->times : Times{});
  page->version = ++store_.last_version_;
  page->writer = writer;
  return page->times;
}

void ClockStore::Knowledge::raise(size_t component, int32_t time, uint64_t writer) {
  if (this->time(component) >= time) return;
  own(pages_[component / kPageComponents], writer)[component % kPageComponents] = time;
}

void ClockStore::Knowledge::merge(const Knowledge& other, uint64_t writer) {
  // Pages lie all over the memory: those that come next are on their way while others are compared.
  constexpr size_t kAhead = 6;
  for (size_t i = 0; i < pages_.size(); ++i) {
    if (i + kAhead < pages_.size()) {
      __builtin_prefetch(pages_[i + kAhead].get());
      __builtin_prefetch(other.pages_[i + kAhead].get());
    }
    if (!other.pages_[i] || other.pages_[i] == pages_[i]) continue;
    if (pages_[i]) {
      merge(pages_[i], other.pages_[i], writer);
    } else {
      pages_[i] = other.pages_[i];
    }
  }
}

void ClockStore::Knowledge::merge(SharedPage& mine, const SharedPage& theirs, uint64_t writer) {
  const auto [mine_version, their_version, mine_lacks, theirs_lacks] = store_.compare(*mine, *theirs);
  if (!theirs_lacks) {
    mine = theirs;  // also where both know the same: one page is enough
  } else if (mine_lacks) {
    Times& times = own(mine, writer);
    for (size_t i = 0; i < kPageComponents; ++i) times[i] = std::max(times[i], theirs->times[i]);
  }
}

size_t ClockStore::Knowledge::first_unknown(size_t begin, size_t end) const {
  while (begin < end) {
    const SharedPage& page = pages_[begin / kPageComponents];
    if (!page) return begin;
    const size_t first = begin % kPageComponents, last = std::min(kPageComponents, first + end - begin);
    const auto* unknown = std::find(page->times.begin() + first, page->times.begin() + last, 0);
    begin += static_cast<size_t>(unknown - page->times.begin()) - first;
    if (unknown != page->times.begin() + last) return begin;
  }
  return end;
}

int Clock::first_unknown(int ranks) const {
  const auto end = static_cast<size_t>(ranks);
  size_t rank = 0;
  while (rank < end && knows(static_cast<int>(rank), 1)) {
    rank = heard_ ? std::max(rank + 1, heard_->first_unknown(rank, end)) : rank + 1;
  }
  return static_cast<int>(rank);
}

void Clock::hear(Clock other) {
  // A queue that has heard of an operation has heard of all that the operation's queue had heard of by then.
  if (knows(other.component_, other.time_)) return;
  // Shared knowledge must not change. Knowledge that nobody shares can grow.
  if (heard_.use_count() != 1) std::swap(heard_, other.heard_);
  if (heard_.use_count() != 1) {
    heard_ = heard_ ? std::make_shared<Knowledge>(*heard_) : std::make_shared<Knowledge>(*store_);
  }
  const uint64_t writer = writer_.number(*store_);
  if (other.heard_) heard_->merge(*other.heard_, writer);
  heard_->raise(static_cast<size_t>(other.rank_), 1, writer);
  heard_->raise(static_cast<size_t>(other.component_), other.time_, writer);
}

}  // namespace plait
