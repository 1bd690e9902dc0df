// Vector clocks: what each queue, and each signal or message under way, has heard of.
//
// Time has one component per rank, followed by one per queue. A rank's component is 1 from its call on, and a queue's
// counts its operations. A clock knows of an event at (component, time) if it is at least there.
//
// Plans have thousands of queues and millions of signals, so clocks share what they know. A signal shares all of it
// with its sender, until the sender hears more. Any two clocks share the pages on which they know the same. In a tree,
// a chain or a hierarchy nearly all pages are alike, so a clock has few of its own, however many queues there are.
// There the same two pages meet again and again, once on every rank, so the store remembers which of two knows more.
//
// A clock never forgets, so of two pages that one clock has written the newer one knows more, whatever their times are.
// In a ring nearly all pages meet older ones of the same writer, which the clock before handed on a step earlier.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace plait {

// Counts the memory that all clocks of one execution hold, and outlives them.
class ClockStore {
 public:
  ClockStore(size_t ranks, size_t queues)
      : components_(ranks + queues), comparisons_(std::bit_ceil(kComparisonsPerPage * pages(components_))) {}

  // Returns the bytes that the knowledge of one clock takes if it shares nothing.
  static double bytes_each(size_t ranks, size_t queues) {
    return static_cast<double>(index_bytes(ranks + queues) + pages(ranks + queues) * kPageBytes);
  }
  // Bytes held at the moment. Shared knowledge counts once.
  size_t held_bytes() const { return held_bytes_; }

 private:
  friend class Clock;
  static constexpr size_t kPageComponents = 128;
  using Times = std::array<int32_t, kPageComponents>;
  static constexpr size_t kExtraBytes = 96;  // of an object on the heap: what C++ and its allocator add
  static constexpr size_t kPageBytes = sizeof(Times) + kExtraBytes;

  // Counts the bytes of an object while it lives.
  class Counted {
   public:
    Counted(ClockStore& store, size_t bytes) : all_(store.held_bytes_), bytes_(bytes) { all_ += bytes_; }
    ~Counted() { all_ -= bytes_; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

   private:
    size_t& all_;
    const size_t bytes_;
  };

  // The times of neighbouring components. Several clocks may hold a page; then none of them may change it.
  struct Page {
    Page(ClockStore& store, const Times& of) : times(of), counted(store, kPageBytes) {}
    uint64_t version = 0;  // these times have it alone
    uint64_t writer = 0;   // the clock that gave it these times
    Times times;
    Counted counted;
  };
  using SharedPage = std::shared_ptr<Page>;  // null: nothing is known

  struct Comparison {
    uint64_t first = 0, second = 0;  // versions
    bool first_lacks = false, second_lacks = false;
  };
  // Whether each of two pages of the same components lacks something that the other knows.
  Comparison compare(const Page& first, const Page& second);
  const Comparison& compare_times(const Page& first, const Page& second);

  // The number of a clock that writes pages. A copy of a clock is another writer.
  class Writer {
   public:
    Writer() = default;
    Writer(const Writer&) {}
    Writer(Writer&& other) noexcept : number_(std::exchange(other.number_, 0)) {}
    Writer& operator=(Writer other) noexcept {
      std::swap(number_, other.number_);
      return *this;
    }
    ~Writer() = default;
    uint64_t number(ClockStore& store) {
      if (number_ == 0) number_ = ++store.last_writer_;
      return number_;
    }

   private:
    uint64_t number_ = 0;  // 0: has written nothing yet
  };

  class Knowledge {
   public:
    explicit Knowledge(ClockStore& store);  // knows nothing
    Knowledge(const Knowledge& other);

    int32_t time(size_t component) const {
      const SharedPage& page = pages_[component / kPageComponents];
      return page ? page->times[component % kPageComponents] : 0;
    }
    // The first component before `end` of which it knows nothing, or `end`; not before `begin`.
    size_t first_unknown(size_t begin, size_t end) const;
    // `writer` is the number of the clock whose knowledge it is.
    void raise(size_t component, int32_t time, uint64_t writer);
    void merge(const Knowledge& other, uint64_t writer);

   private:
    void merge(SharedPage& mine, const SharedPage& theirs, uint64_t writer);
    // Returns the times of a page, which the writer is to change.
    Times& own(SharedPage& page, uint64_t writer);

    ClockStore& store_;
    std::vector<SharedPage> pages_;
    ClockStore::Counted counted_;
  };

  static constexpr size_t kComparisonsPerPage = 32;
  static size_t pages(size_t components) { return (components + kPageComponents - 1) / kPageComponents; }
  // Bytes of a clock besides its pages.
  static size_t index_bytes(size_t components) { return pages(components) * sizeof(SharedPage) + 2 * kExtraBytes; }

  size_t components_;
  size_t held_bytes_ = 0;
  uint64_t last_version_ = 0, last_writer_ = 0;
  std::vector<Comparison> comparisons_;  // the last ones, each where its versions lead
};

// The common part of all clocks: the own component and its time, and the times of all others that it has heard of.
// `Heard::time(component)` returns these. Clocks that know the same share it.
template <class Heard>
class OwnClock {
 public:
  OwnClock() = default;
  OwnClock(int rank_component, int component) : rank_(rank_component), component_(component) {}

  int component() const { return component_; }
  // The time of the queue itself.
  int32_t time() const { return time_; }
  void set_time(int32_t time) { time_ = time; }

  bool knows(int component, int32_t time) const {
    if (component == component_) return time_ >= time;
    if (component == rank_) return true;
    return (heard_ ? heard_->time(static_cast<size_t>(component)) : 0) >= time;
  }

 protected:
  int rank_ = -1, component_ = -1;
  int32_t time_ = 0;              // of its own component, for which `heard_` is out of date
  std::shared_ptr<Heard> heard_;  // null: it has heard of nobody else
};

class Clock : public OwnClock<ClockStore::Knowledge> {
 public:
  Clock() = default;
  // The clock of a queue of `rank`, or of the rank's caller (component -1). It knows of that rank's call.
  Clock(ClockStore& store, int rank, int component) : OwnClock(rank, component), store_(&store) {}

  // Returns the first rank of whose call it does not know, or `ranks` if it knows of all.
  int first_unknown(int ranks) const;
  // From now on this clock knows all that `other` knows.
  void hear(Clock other);

 private:
  using Knowledge = ClockStore::Knowledge;

  ClockStore* store_ = nullptr;
  ClockStore::Writer writer_;
};

}  // namespace plait
