// Vector clocks: what each queue, and each signal or message under way, has heard of.
//
// Time has one component per rank, followed by one per queue. A rank's component is 1 from its call on, and a queue's
// counts its operations. A clock knows of an event at (component, time) if it is at least there.
//
// Plans have thousands of queues and millions of signals, so a signal does not copy the knowledge of its sender. It
// shares that knowledge until the sender hears more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace plait {

// Holds the knowledge of all clocks of one execution, and outlives them.
class ClockStore {
 public:
  ClockStore(size_t ranks, size_t queues) : ranks_(ranks), queues_(queues) {}

  // Returns the bytes that the knowledge of one clock takes.
  static double bytes_each(size_t ranks, size_t queues) {
    return static_cast<double>(words(ranks, queues) * sizeof(int32_t) + kExtraBytes);
  }
  // Number of clocks' knowledge held at the moment. Shared knowledge counts once.
  size_t held() const { return held_; }

 private:
  friend class Clock;
  static constexpr size_t kExtraBytes = 128;  // what C++ and its allocator add
  // The time of each queue, followed by one bit per rank.
  static size_t words(size_t ranks, size_t queues) { return queues + (ranks + 31) / 32; }

  size_t ranks_, queues_;
  size_t held_ = 0;
  std::vector<std::vector<int32_t>> spare_;  // kept, since allocating pages costs more than all merging
};

class Clock {
 public:
  Clock() = default;
  // The clock of a queue of `rank`, or of the rank's caller (component -1). It knows of that rank's call.
  Clock(ClockStore& store, int rank, int component) : store_(&store), rank_(rank), component_(component) {}

  int component() const { return component_; }
  // The time of the queue itself.
  int32_t time() const { return time_; }
  void set_time(int32_t time) { time_ = time; }

  bool knows(int component, int32_t time) const;
  // From now on this clock knows all that `other` knows.
  void hear(Clock other);

 private:
  class Knowledge {
   public:
    explicit Knowledge(ClockStore& store);  // knows nothing
    ~Knowledge();
    Knowledge(const Knowledge&) = delete;
    Knowledge& operator=(const Knowledge&) = delete;

    void merge(const Knowledge& other);
    bool has_rank(size_t rank) const { return (word_of(rank) >> rank % 32 & 1) != 0; }
    void add_rank(size_t rank);

    ClockStore& store;
    std::vector<int32_t> words;

   private:
    uint32_t word_of(size_t rank) const { return static_cast<uint32_t>(words[store.queues_ + rank / 32]); }
  };

  ClockStore* store_ = nullptr;
  int rank_ = -1;
  int component_ = -1;
  int32_t time_ = 0;                  // of its own component, for which `heard_` is out of date
  std::shared_ptr<Knowledge> heard_;  // null: it has heard of nobody else
};

}  // namespace plait
