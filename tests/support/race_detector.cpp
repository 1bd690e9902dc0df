// Compiled without hooks, so that the detector does not check itself.
#include "support/race_detector.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>

#include "base/error.hpp"

namespace plait::test {
namespace {

// The running thread and its detector; null: nobody whose accesses matter.
RaceDetector* detector = nullptr;
RaceDetector::Thread* running = nullptr;
std::span<const char> its_stack;

bool is_load(RaceDetector::Kind kind) {
  return kind == RaceDetector::Kind::kLoad || kind == RaceDetector::Kind::kAtomicLoad;
}
bool is_atomic(RaceDetector::Kind kind) {
  return kind != RaceDetector::Kind::kLoad && kind != RaceDetector::Kind::kStore;
}

}  // namespace

// ---- Views

uint32_t View::of(uint32_t thread) const {
  const size_t part = thread / kShared;
  if (!parts_ || part >= parts_->size() || !(*parts_)[part]) return 0;
  return (*(*parts_)[part])[thread % kShared];
}

template <class Shared>
Shared& View::own(std::shared_ptr<Shared>& shared) {
  if (!shared) shared = std::make_shared<Shared>();
  if (shared.use_count() > 1) shared = std::make_shared<Shared>(*shared);
  return *shared;
}

void View::set(std::span<const Clock> clocks) {
  for (size_t c = 0; c < clocks.size();) {
    const size_t part = clocks[c].thread / kShared;
    Parts& parts = own(parts_);
    if (part >= parts.size()) parts.resize(part + 1);
    Clocks& its = own(parts[part]);
    for (; c < clocks.size() && clocks[c].thread / kShared == part; ++c) {
      uint32_t& clock = its[clocks[c].thread % kShared];
      clock = std::max(clock, clocks[c].now);  // a thread that only arrived went on, and may have published that
    }
  }
}

void View::join(const View& other) {
  if (!other.parts_ || parts_ == other.parts_) return;
  if (!parts_) {
    parts_ = other.parts_;
    return;
  }
  for (size_t p = 0; p < other.parts_->size(); ++p) {
    const std::shared_ptr<Clocks>& theirs = (*other.parts_)[p];
    const Clocks* const ours = p < parts_->size() ? (*parts_)[p].get() : nullptr;
    if (!theirs || theirs.get() == ours || (ours != nullptr && is_within(*theirs, *ours))) continue;
    Parts& parts = own(parts_);
    if (p >= parts.size()) parts.resize(other.parts_->size());
    if (ours == nullptr || is_within(*ours, *theirs)) {
      parts[p] = theirs;
      continue;
    }
    Clocks& both = own(parts[p]);
    for (size_t i = 0; i < both.size(); ++i) both[i] = std::max(both[i], (*theirs)[i]);
  }
}

bool View::is_within(const Clocks& one, const Clocks& other) {
  bool is = true;
  for (size_t i = 0; i < one.size(); ++i) is &= one[i] <= other[i];
  return is;
}

// ---- Watched memory

void RaceDetector::watch(const void* start, size_t bytes, std::string name) {
  if (bytes == 0) return;
  const auto first = reinterpret_cast<uintptr_t>(start);
  watched_[first] = {first, first + bytes, std::move(name)};
  update_region(watched_[first]);
}

void RaceDetector::forget(const void* start) {
  const auto found = watched_.find(reinterpret_cast<uintptr_t>(start));
  if (found == watched_.end()) return;
  const Region region = found->second;
  watched_.erase(found);
  update_region(region);
}

// Updates what is watched in known pages, and forgets all accesses there.
void RaceDetector::update_region(const Region& region) {
  if (pages_.empty()) return;
  for (uintptr_t number = region.start / kPageBytes; number * kPageBytes < region.end; ++number) {
    const auto found = pages_.find(number);
    if (found == pages_.end()) continue;
    if (!found->second) {
      pages_.erase(found);
      found_[number % found_.size()] = {};
      continue;
    }
    const uintptr_t page = number * kPageBytes;
    for (size_t g = 0; g < found->second->cells.size(); ++g) {
      const uintptr_t at = page + g * kGranule;
      if (at + kGranule <= region.start || at >= region.end) continue;
      found->second->watched[g] = is_watched(at);
      found->second->cells[g] = {};
      if (found->second->words) (*found->second->words)[2 * g] = (*found->second->words)[2 * g + 1] = {};
    }
  }
}

bool RaceDetector::is_watched(uintptr_t granule) const {
  const auto after = watched_.lower_bound(granule + kGranule);
  return after != watched_.begin() && std::prev(after)->second.end > granule;
}

// Null: nothing there is watched.
RaceDetector::Page* RaceDetector::page_at(uintptr_t address) {
  const uintptr_t number = address / kPageBytes;
  auto& [its_number, page] = found_[number % found_.size()];
  if (its_number != number) {
    page = find_page(number);
    its_number = number;
  }
  return page;
}

RaceDetector::Page* RaceDetector::find_page(uintptr_t number) {
  const auto [found, is_new] = pages_.emplace(number, nullptr);
  if (!is_new) return found->second.get();
  const uintptr_t start = number * kPageBytes;
  for (size_t g = 0; g < kPageBytes / kGranule; ++g) {
    if (!is_watched(start + g * kGranule)) continue;
    if (!found->second) found->second = std::make_unique<Page>();
    found->second->watched[g] = true;
  }
  return found->second.get();
}

// ---- Threads

RaceDetector::Thread RaceDetector::begin(const Place& place, const Knowledge& knows) {
  const auto [found, is_new] = ids_.emplace(place, static_cast<uint32_t>(places_.size()));
  if (is_new) {
    places_.push_back(place);
    clocks_.push_back(1);
  }
  Thread thread;
  thread.id = found->second;
  thread.now = clocks_[thread.id];
  learn(thread, knows);
  return thread;
}

void RaceDetector::learn(Thread& self, const Knowledge& of_launches) {
  self.knows.join(of_launches);
  self.fenced.join(of_launches.stores);
}

void RaceDetector::end(const Thread& thread) { clocks_[thread.id] = thread.now + 1; }

void RaceDetector::SyncPoint::arrive(Thread& self) {
  gathered_.join(self.knows);
  arrived_.push_back({self.id, self.now++});
}

void RaceDetector::SyncPoint::complete() {
  gathered_.stores.set(arrived_);
  gathered_.loads.set(arrived_);
  arrived_.clear();
  known_ = std::exchange(gathered_, {});
}

void RaceDetector::SyncPoint::complete_launch() {
  complete();
  known_.placed.join(known_.stores);
}

void RaceDetector::run(Thread* thread, std::span<const char> stack) {
  detector = thread == nullptr ? nullptr : this;
  running = thread;
  its_stack = stack;
}

// ---- Accesses

void RaceDetector::touch(const void* address, size_t bytes, Kind kind, const void* code) {
  if (running == nullptr) return;
  const auto at = reinterpret_cast<uintptr_t>(address);
  const bool is_on_stack = at - reinterpret_cast<uintptr_t>(its_stack.data()) < its_stack.size();
  if (!is_on_stack) detector->access(*running, at, bytes, kind, code);
}

void RaceDetector::load_atomic(const void* from, size_t bytes, int order, const void* code) {
  Word* const word = word_at(from);
  if (word == nullptr) return;
  touch(from, bytes, Kind::kAtomicLoad, code);
  observe(*word, order);
}

void RaceDetector::store_atomic(const void* to, size_t bytes, int order, const void* code) {
  Word* const word = word_at(to);
  if (word == nullptr) return;
  touch(to, bytes, Kind::kAtomicStore, code);
  word->published = {};
  publish(*word, order);
}

// A later load of the word also observes what earlier updates published.
void RaceDetector::update_atomic(const void* at, size_t bytes, int order, const void* code) {
  Word* const word = word_at(at);
  if (word == nullptr) return;
  touch(at, bytes, Kind::kAtomicUpdate, code);
  observe(*word, order);
  publish(*word, order);
}

// Null: no thread runs, or the address is not watched.
RaceDetector::Word* RaceDetector::word_at(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  Page* const page = running == nullptr ? nullptr : detector->page_at(at);
  if (page == nullptr) return nullptr;
  if (!page->words) page->words = std::make_unique<Words>();
  return &(*page->words)[at % kPageBytes / sizeof(uint32_t)];
}

void RaceDetector::observe(const Word& word, int order) {
  if (word.number == running->observed) return;
  const bool acquires = order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE;
  running->knows.loads.join(word.published.loads);
  running->knows.placed.join(word.published.placed);
  (acquires ? running->knows.stores : running->to_fence).join(word.published.stores);
  if (acquires) running->observed = word.number;
}

void RaceDetector::publish(Word& word, int order) {
  const bool releases = order != __ATOMIC_RELAXED && order != __ATOMIC_ACQUIRE && order != __ATOMIC_CONSUME;
  word.number = ++detector->published_;
  word.published.stores.join(releases ? all_stores() : running->fenced);
  if (releases) running->knows.placed.join(word.published.stores);
  word.published.placed.join(running->knows.placed);
  word.published.loads.join(running->knows.loads);
  word.published.loads.set(std::array{View::Clock{running->id, running->now++}});
}

// The stores before, and the thread's own.
View RaceDetector::all_stores() {
  View all = running->knows.stores;
  all.set(std::array{View::Clock{running->id, running->now}});
  return all;
}

void RaceDetector::fence() {
  if (running == nullptr) return;
  running->knows.stores.join(running->to_fence);
  running->fenced = all_stores();
  running->knows.placed.join(running->fenced);
  ++running->now;
}

void RaceDetector::access(const Thread& self, uintptr_t address, size_t bytes, Kind kind, const void* code) {
  const uintptr_t end = address + bytes;
  for (uintptr_t granule = address / kGranule * kGranule; granule < end; granule += kGranule) {
    Page* const page = page_at(granule);
    const size_t in_page = granule % kPageBytes / kGranule;
    if (page == nullptr || !page->watched[in_page]) continue;
    const uintptr_t first = std::max(granule, address) - granule, last = std::min(granule + kGranule, end) - granule;
    const auto mask = static_cast<uint8_t>((1u << last) - (1u << first));
    const Access here{self.id, self.now, code, kind, mask};
    for (const Access& before : page->cells[in_page]) {
      if ((before.bytes & mask) != 0 && !is_ordered(self, before, kind)) report(before, here, granule);
    }
    remember(page->cells[in_page], self, here);
  }
}

bool RaceDetector::is_ordered(const Thread& self, const Access& before, Kind kind) {
  if (before.thread == self.id) return true;
  if (is_load(before.kind) && is_load(kind)) return true;
  if (is_atomic(before.kind) && is_atomic(kind)) return true;
  const auto is_known = [&before](const View& view) { return before.clock <= view.of(before.thread); };
  if (is_load(before.kind)) return is_known(self.knows.loads);
  return is_known(self.knows.stores) || (!is_load(kind) && is_known(self.knows.placed));
}

// Forgets accesses that this one replaces: what would race with them races with it, too. A store replaces everything
// except atomic accesses that are not ordered before it, and a load replaces earlier loads. If there are too many, the
// oldest ones go.
void RaceDetector::remember(Cell& cell, const Thread& self, const Access& access) {
  const auto is_known = [&](const Access& before) {
    return before.thread == self.id || before.clock <= self.knows.stores.of(before.thread);
  };
  const auto is_replaced = [&](const Access& before) {
    if (is_load(access.kind)) return before.kind == access.kind && is_known(before);
    return access.kind != Kind::kAtomicStore || !is_atomic(before.kind) || is_known(before);
  };
  for (Access& before : cell) {
    if (is_replaced(before)) before.bytes &= ~access.bytes;
  }
  auto end = std::remove_if(cell.begin(), cell.end(), [&](const Access& before) { return before.bytes == 0; });
  if (end == cell.end()) end = std::move(cell.begin() + 1, cell.end(), cell.begin());
  *end = access;
  std::fill(end + 1, cell.end(), Access{});
}

// ---- Reports

std::string RaceDetector::describe(const Access& access) const {
  const Place& place = places_[access.thread];
  Dl_info where{};
  const auto* const code = static_cast<const char*>(access.code);
  const bool is_known = dladdr(code, &where) != 0;
  std::array<char, 32> at{};
  if (is_known) std::snprintf(at.data(), at.size(), "%#tx", code - static_cast<const char*>(where.dli_fbase));
  return join("thread ", place.thread, " of CTA ", place.cta, " on stream ", place.stream, " (at ", at.data(), ")");
}

void RaceDetector::report(const Access& before, const Access& after, uintptr_t at) {
  if (!race_.empty()) return;
  const auto verb = [](Kind kind) {
    constexpr const char* kVerbs[] = {"loads", "stores", "atomically loads", "atomically stores", "updates"};
    return kVerbs[static_cast<size_t>(kind)];
  };
  const Region& region = std::prev(watched_.lower_bound(at + kGranule))->second;
  race_ = join("a race for ", region.name, " around byte ", std::max(at, region.start) - region.start, ": ",
               describe(before), " ", verb(before.kind), ", ", describe(after), " ", verb(after.kind),
               ", and nothing orders the two");
}

}  // namespace plait::test
