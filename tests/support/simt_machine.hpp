// A simulated GPU that runs kernels on a CPU (simt.hpp). Threads are fibers: each runs a few steps at a time, in an
// order that a seed decides.
//
// The threads of a warp synchronise at votes and shuffles, those of a CTA at barriers, and let others run while they
// wait. Threads that synchronise have to be at the same place of the same template instance. Now and then a thread is
// held up until the others have gone as far as they can without it. That reveals errors that need a certain order: data
// that is never sent or is overwritten too early, and waits that never end. A GPU may also perform accesses in another
// order than this; the race detector reveals such errors, in code that is compiled for it.
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

  // Launches on a stream. A launch starts when the previous one of the stream is over or, with `pdl`, once all CTAs of
  // the previous one allow it. Each thread performs `body`.
  void launch(size_t stream, dim3 grid, dim3 block, std::function<void()> body, bool pdl = false) {
    while (stream >= streams_.size()) streams_.emplace_back(streams_.size());
    streams_[stream].waiting.push_back({grid, block, std::move(body), pdl});
  }

  // Runs all launches. Throws std::runtime_error if threads wait for ever, if threads synchronise at different places,
  // or if there is a race for watched memory.
  void run();

  // Looks for races from now on, in code that is compiled for it; that takes several times as long. Not for tests in
  // which threads give up, since nothing orders what they waited for before what follows.
  void find_races() { finds_races_ = PLAIT_FINDS_RACES != 0; }
  // Looks for races in this memory.
  void watch(const void* start, size_t bytes, std::string name) { races_.watch(start, bytes, std::move(name)); }

  // ---- For the running thread:

  struct Indices {
    uint3 thread, block;
    dim3 block_dim, grid_dim;
  };
  static const Indices& indices() { return current_->self_->indices; }

  // Lets other threads run.
  static void pause() { Fiber::pause(); }
  // Performs both in an order that the seed decides. Now and then it lets other threads run in between.
  template <class One, class Other>
  static void in_any_order(const One& one, const Other& other) {
    const bool is_swapped = one_in(2), pauses = one_in(kPairsBetweenPauses);
    is_swapped ? other() : one();
    if (pauses) pause();
    is_swapped ? one() : other();
  }

  using Location = std::source_location;
  struct Votes {
    std::array<uint64_t, 32> values;
    unsigned present;
  };
  // Synchronises the warp, and gives the values of all its threads.
  static const Votes& vote_in_warp(uint64_t value, const Location& at);
  // Like __syncwarp(): it orders all accesses of the warp's threads, while a vote orders only their loads.
  static void sync_warp(const Location& at);
  static unsigned lane() { return current_->self_->indices.thread.x % 32; }
  // Synchronises the CTA. Returns whether `value` is true for all its threads.
  static bool sync_cta(bool value, const Location& at);
  // One of the CTA's named barriers, with so many threads. Returns whether `value` is true for all of them.
  static bool barrier_sync(uint32_t barrier, uint32_t threads, bool value);
  static void barrier_arrive(uint32_t barrier, uint32_t threads);
  // Synchronises eight neighbouring threads of the warp, all of which have to be alive.
  static void sync_eight(const Location& at);
  // The CTA's shared array of this type and count.
  template <class T, int count>
  static T* shared_array() {
    std::shared_ptr<void>& array = current_->self_->cta->arrays[typeid(T[count])];
    if (array == nullptr) {
      array = std::make_shared<T[]>(count);
      current_->watch(array.get(), sizeof(T[count]), "shared memory");
    }
    return static_cast<T*>(array.get());
  }

  // Waits until the previous launch of the stream is over.
  static void await_launch_before();
  // Lets the next launch start, as far as this CTA is concerned.
  static void let_next_launch_begin();

  // Accesses by a copy engine or by the host.
  static void copy(void* to, const void* from, size_t bytes) {
    loads(from, bytes);
    stores(to, bytes);
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  static void loads(const void* from, size_t bytes) {
    RaceDetector::touch(from, bytes, RaceDetector::Kind::kLoad, nullptr);
  }
  static void stores(void* to, size_t bytes) { RaceDetector::touch(to, bytes, RaceDetector::Kind::kStore, nullptr); }

  // A clock for bounded waits: a turn of all threads takes a second. It pauses, since a thread that reads it has waited
  // for long.
  static uint64_t nanoseconds_now() {
    pause();
    return current_->turn_ * 1'000'000'000;
  }

 private:
  static constexpr uint64_t kPairsBetweenPauses = 4;  // one pair of accesses in so many has a pause in between
  // With the address sanitizer, frames are several times as large.
#ifdef __SANITIZE_ADDRESS__
  static constexpr size_t kStackBytes = 512 << 10;
#else
  static constexpr size_t kStackBytes = 64 << 10;
#endif

  static bool one_in(uint64_t times) { return current_->random_() % times == 0; }

  // Orders the accesses of threads that synchronise: those before against those after.
  struct Order {
    RaceDetector::SyncPoint point;

    void arrive();
    void complete();
    void leave() const;
    void leave_after_loads() const;
  };

  // The place where threads synchronise: that of the first one to arrive.
  struct SyncLocation {
    Location first;

    void arrive(bool is_first, const Location& at);
  };

  // A barrier of all threads that are alive.
  struct Barrier {
    unsigned alive = 0, arrived = 0;
    uint64_t generation = 0;
    bool all = true, result = true;
    SyncLocation place;
    Order order;

    bool sync(bool value, const Location& at);
    void leave();
    void go_on_if_complete();
  };

  // A barrier of as many threads as those that arrive say, whether others are alive or not.
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
    std::array<Barrier, 4> eights;
    SyncLocation place;
    Order order;

    const Votes& sync(unsigned lane, uint64_t value, const Location& at);
    void enter(unsigned lane);
    void leave(unsigned lane);
    void go_on_if_complete();
  };

  struct Thread;
  struct Cta;
  struct Stream;
  // A running launch.
  struct Grid {
    explicit Grid(Stream& its_stream) : stream(its_stream) {}
    Stream& stream;
    Order order;  // of threads that have ended
    std::vector<std::unique_ptr<Thread>> threads;
    std::vector<std::shared_ptr<Cta>> ctas;
    uint64_t is_first = 0;  // 1: the first of those that run on its stream
    bool uses_pdl = false;
  };

  struct Cta {
    Cta(Grid& its_grid, RaceDetector& detector) : grid(its_grid), races(detector) {}
    ~Cta();
    Grid& grid;
    RaceDetector& races;
    Barrier barrier;
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
    const uint64_t* awaited = nullptr;  // the thread waits until this is no longer `not_after`
    uint64_t not_after = 0;
    uint64_t held_until = 0;   // a turn
    bool has_awaited = false;  // await_launch_before() has returned
    bool is_done = false;
  };

  struct Launch {
    dim3 grid, block;
    std::function<void()> body;
    bool pdl;
  };
  struct Stream {
    explicit Stream(size_t its_number) : number(its_number) {}
    const size_t number;
    std::deque<Launch> waiting;
    std::deque<std::unique_ptr<Grid>> running;  // with PDL, two of them
    Knowledge over;                             // of the launches that are over
    bool is_odd = false;                        // alternates from launch to launch
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
  std::string divergence_;  // threads that synchronised although they were at different places
};

}  // namespace plait::test
