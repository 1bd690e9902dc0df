// The machine that performs kernels on a CPU (simt.hpp): their threads are fibers, of which a few steps of one are
// followed by a few of another, in an order that a seed decides.
//
// A warp's threads meet at votes and shuffles, a CTA's at barriers; whoever waits there lets others run. Those who meet
// have to be at one place of one instance of a template. Now and then a thread is held up until others have gone as far
// as they can without it. That shows what is wrong in some order: what is never sent, is overwritten too early, or
// waits for ever. What a GPU need not do in the order in which it was done here, the race detector shows, in what is
// compiled for it.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <bitset>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <source_location>
#include <string>
#include <typeindex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "support/fiber.hpp"
#include "support/race_detector.hpp"

namespace plait::test {

class Simt {
 public:
  explicit Simt(uint64_t seed) : random_(seed) { current_ = this; }
  Simt(const Simt&) = delete;
  Simt& operator=(const Simt&) = delete;

  // Launches on a stream: one begins when the one before it on the stream is over, or, if it may be early, once all
  // CTAs of that let it. `body` is what a thread performs.
  void launch(size_t stream, dim3 grid, dim3 block, std::function<void()> body, bool early = false) {
    while (stream >= streams_.size()) streams_.emplace_back(streams_.size());
    streams_[stream].waiting.push_back({grid, block, std::move(body), early});
  }

  // Runs all launches. Throws std::runtime_error where threads go on waiting, where some meet at different places, and
  // of a race for what is watched.
  void run();

  // From now on, in what is compiled for that, which takes several times as long. Not where threads give up: what they
  // waited for is in no order with what follows.
  void find_races() { finds_races_ = PLAIT_FINDS_RACES != 0; }
  // Memory that several threads use, where races are looked for.
  void watch(const void* start, size_t bytes, std::string name) { races_.watch(start, bytes, std::move(name)); }

  // ---- For the thread that runs:

  struct Indices {
    uint3 thread, block;
    dim3 block_dim, grid_dim;
  };
  static const Indices& indices() { return current_->self_->indices; }

  // Lets others run.
  static void pause() { Fiber::pause(); }
  // Performs both, in an order that the seed decides, and now and then lets others run in between.
  template <class One, class Other>
  static void in_any_order(const One& one, const Other& other) {
    const bool is_turned = one_in(2), are_apart = one_in(kPairsBetweenPauses);
    is_turned ? other() : one();
    if (are_apart) pause();
    is_turned ? one() : other();
  }

  using Location = std::source_location;
  struct Votes {
    std::array<uint64_t, 32> values;
    unsigned present;
  };
  // What the threads of the warp say.
  static const Votes& meet_warp(uint64_t value, const Location& at);
  // That orders all that its threads access, and not only what they have loaded, and said.
  static void sync_warp(const Location& at);
  static unsigned queue() { return current_->self_->indices.thread.x % 32; }
  // Whether all threads of the CTA say so.
  static bool meet_cta(bool value, const Location& at);
  // One of the CTA's named barriers, of so many threads: whether all that come say so.
  static bool barrier_sync(uint32_t barrier, uint32_t threads, bool value);
  static void barrier_arrive(uint32_t barrier, uint32_t threads);
  // Eight neighbouring threads of the warp, all of which are there.
  static void meet_eight(const Location& at);
  // The CTA's array of so many of this type.
  template <class T, int count>
  static T* shared_array() {
    std::shared_ptr<void>& array = current_->self_->cta->arrays[typeid(T[count])];
    if (array == nullptr) {
      array = std::make_shared<T[]>(count);
      current_->watch(array.get(), sizeof(T[count]), "shared memory");
    }
    return static_cast<T*>(array.get());
  }

  // Until the launch before this one is over.
  static void await_launch_before();
  // So does this CTA let the next launch begin.
  static void let_next_launch_begin();

  // What a copy engine does, or a host: what it accesses.
  static void copy(void* to, const void* from, size_t bytes) {
    loads(from, bytes);
    stores(to, bytes);
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  static void loads(const void* from, size_t bytes) {
    RaceDetector::touch(from, bytes, RaceDetector::Kind::kLoad, nullptr);
  }
  static void stores(void* to, size_t bytes) { RaceDetector::touch(to, bytes, RaceDetector::Kind::kStore, nullptr); }

  // A clock for bounded waits: a turn of all threads lasts a second. Who looks at it has waited for long.
  static uint64_t nanoseconds_now() {
    pause();
    return current_->turn_ * 1'000'000'000;
  }

 private:
  static constexpr uint64_t kPairsBetweenPauses = 4;  // in one pair of words of so many others run in between
  static constexpr size_t kStackBytes = 64 << 10;

  static bool one_in(uint64_t times) { return current_->random_() % times == 0; }

  // Orders what the threads that come access before and after.
  struct Order {
    RaceDetector::Meeting meeting;

    void come();
    void complete();
    void leave() const;
    void leave_after_loads() const;
  };

  // Where threads meet: the first one that comes says.
  struct MeetingPlace {
    Location first;

    void come(bool is_first, const Location& at);
  };

  // Of so many threads as are alive.
  struct Meeting {
    unsigned alive = 0, arrived = 0;
    uint64_t generation = 0;
    bool all = true, result = true;
    MeetingPlace place;
    Order order;

    bool meet(bool value, const Location& at);
    void leave();
    void go_on_if_complete();
  };

  // Of as many threads as those say that come, be they still there or not.
  struct NamedBarrier {
    uint32_t arrived = 0, threads = 0;
    std::bitset<1024> came;
    uint64_t generation = 0;
    bool all = true, result = true;
    Order order;

    void arrive(uint32_t its_threads, bool value);
  };

  struct Warp {
    unsigned alive = 0, arrived = 0;
    uint64_t generation = 0;
    std::array<uint64_t, 32> values{};
    Votes votes{};
    std::array<Meeting, 4> eights;
    MeetingPlace place;
    Order order;

    const Votes& meet(unsigned queue, uint64_t value, const Location& at);
    void enter(unsigned queue);
    void leave(unsigned queue);
    void go_on_if_complete();
  };

  struct Thread;
  struct Cta;
  struct Stream;
  // A launch that runs.
  struct Grid {
    explicit Grid(Stream& its_stream) : stream(its_stream) {}
    Stream& stream;
    Order order;  // of threads that have ended
    std::vector<std::unique_ptr<Thread>> threads;
    std::vector<std::shared_ptr<Cta>> ctas;
    uint64_t is_first = 0;  // of those that run on its stream
    bool is_early = false;
  };

  struct Cta {
    Cta(Grid& its_grid, RaceDetector& detector) : grid(its_grid), races(detector) {}
    ~Cta();
    Grid& grid;
    RaceDetector& races;
    Meeting barrier;
    std::array<NamedBarrier, 16> named;
    bool lets_next_begin = false;
    std::unordered_map<std::type_index, std::shared_ptr<void>> arrays;  // in shared memory
  };

  struct Thread {
    Indices indices{};
    std::shared_ptr<Warp> warp;
    std::shared_ptr<Cta> cta;
    std::function<void()> body;
    RaceDetector::Thread memory;
    Fiber fiber{&Simt::perform, kStackBytes};
    const uint64_t* awaited = nullptr;  // it waits until this is no longer `not_after`
    uint64_t not_after = 0;
    uint64_t held_until = 0;   // a turn
    bool has_awaited = false;  // the launch before
    bool is_done = false;
  };

  struct Launch {
    dim3 grid, block;
    std::function<void()> body;
    bool early;
  };
  struct Stream {
    explicit Stream(size_t its_number) : number(its_number) {}
    const size_t number;
    std::deque<Launch> waiting;
    std::deque<std::unique_ptr<Grid>> running;  // the last one maybe early
    Knowledge over;                             // of the launches that are
    bool is_odd = false;                        // the last one that began
  };

  static void await_next(const uint64_t& generation, uint64_t mine);
  static bool is_over(const Grid& grid);
  static bool lets_next_begin(const Grid& grid);
  void begin_next(Stream& stream);
  void add_cta(Grid& grid, const Launch& launch, uint3 block);
  bool can_go_on(const Thread& thread) const;
  void step(Thread& thread);
  static void perform();

  static inline Simt* current_ = nullptr;
  std::mt19937_64 random_;
  RaceDetector races_;
  bool finds_races_ = false;
  std::deque<Stream> streams_;
  Thread* self_ = nullptr;
  uint64_t turn_ = 0;
  std::string divergence_;  // where threads met that should not have
};

}  // namespace plait::test
