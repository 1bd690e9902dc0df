// Things that are due at some time, of which the earliest is asked for again and again, and times change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace plait {

// A binary heap in which each of some numbered things is at most once. Among equal times the lowest number comes first,
// so that what is done in this order is the same in every run.
class DueHeap {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  void resize(size_t things) { position_.resize(things, kOutside); }
  bool empty() const { return heap_.empty(); }
  double first_time() const { return heap_.empty() ? kNever : heap_.front().first; }
  uint32_t first() const { return heap_.front().second; }

  // Puts it there, or moves it to another time.
  void set(uint32_t thing, double time) {
    if (position_[thing] == kOutside) {
      heap_.emplace_back(time, thing);
      position_[thing] = static_cast<uint32_t>(heap_.size() - 1);
      return rise(heap_.size() - 1);
    }
    const size_t at = position_[thing];
    const bool earlier = time < heap_[at].first;
    heap_[at].first = time;
    earlier ? rise(at) : sink(at);
  }

  void remove(uint32_t thing) {
    const uint32_t at = position_[thing];
    if (at == kOutside) return;
    position_[thing] = kOutside;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (at == heap_.size()) return;
    place(at, last);
    rise(at);
    sink(position_[last.second]);
  }

 private:
  using Entry = std::pair<double, uint32_t>;
  static constexpr uint32_t kOutside = std::numeric_limits<uint32_t>::max();

  void place(size_t at, const Entry& entry) {
    heap_[at] = entry;
    position_[entry.second] = static_cast<uint32_t>(at);
  }

  void rise(size_t at) {
    const Entry entry = heap_[at];
    for (; at > 0 && entry < heap_[(at - 1) / 2]; at = (at - 1) / 2) place(at, heap_[(at - 1) / 2]);
    place(at, entry);
  }

  void sink(size_t at) {
    const Entry entry = heap_[at];
    for (size_t child = 2 * at + 1; child < heap_.size(); child = 2 * at + 1) {
      if (child + 1 < heap_.size() && heap_[child + 1] < heap_[child]) ++child;
      if (entry < heap_[child]) break;
      place(at, heap_[child]);
      at = child;
    }
    place(at, entry);
  }

  std::vector<Entry> heap_;
  std::vector<uint32_t> position_;
};

}  // namespace plait
