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

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <source_location>
#include <stdexcept>
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
  void run() {
    for (turn_ = 0;; ++turn_) {
      bool is_over = true;
      std::vector<Thread*> threads;
      for (Stream& stream : streams_) {
        begin_next(stream);
        for (const auto& grid : stream.running) {
          is_over = false;
          for (const auto& thread : grid->threads) {
            if (can_go_on(*thread)) threads.push_back(thread.get());
          }
        }
      }
      if (is_over) return;
      if (turn_ > kMostTurns) throw std::runtime_error("threads wait for ever");
      std::shuffle(threads.begin(), threads.end(), random_);
      if (!threads.empty() && random_() % kTurnsBetweenHolds == 0) {
        threads.back()->held_until = turn_ + (uint64_t{1} << random_() % kHoldLengths);
        threads.pop_back();
      }
      for (Thread* const thread : threads) {
        step(*thread);
        if (!divergence_.empty()) throw std::runtime_error(divergence_);
        if (!races_.race().empty()) throw std::runtime_error(races_.race());
      }
    }
  }

  // Memory that several threads use, and in which races are found, if they are to be.
  void watch(const void* start, size_t bytes, std::string name) {
    if constexpr (kFindsRaces) races_.watch(start, bytes, std::move(name));
  }
  // That takes several times as long. Not where threads give up: what they waited for is in no order with what follows.
  void find_races() { finds_races_ = kFindsRaces; }

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
  static const Votes& meet_warp(uint64_t value, const Location& at) {
    Warp& warp = *current_->self_->warp;
    warp.order.come();
    const Votes& votes = warp.meet(lane(), value, at);
    warp.order.leave_after_loads();
    return votes;
  }
  // That orders all that its threads access, and not only what they have loaded, and said.
  static void sync_warp(const Location& at) {
    meet_warp(0, at);
    current_->self_->warp->order.leave();
  }
  static unsigned lane() { return current_->self_->indices.thread.x % 32; }
  // Whether all threads of the CTA say so.
  static bool meet_cta(bool value, const Location& at) {
    Meeting& barrier = current_->self_->cta->barrier;
    barrier.order.come();
    const bool result = barrier.meet(value, at);
    barrier.order.leave();
    return result;
  }
  // One of the CTA's named barriers, of so many threads: whether all that come say so.
  static bool meet_at(uint32_t barrier, uint32_t threads, bool value) {
    NamedBarrier& it = current_->self_->cta->named[barrier];
    const uint64_t mine = it.generation;
    it.arrive(threads, value);
    await_next(it.generation, mine);
    it.order.leave();
    return it.result;
  }
  static void arrive_at(uint32_t barrier, uint32_t threads) {
    current_->self_->cta->named[barrier].arrive(threads, true);
  }
  // Eight neighbouring threads of the warp, all of which are there.
  static void meet_eight(const Location& at) { current_->self_->warp->eights[lane() / 8].meet(true, at); }
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
  static void await_launch_before() {
    Grid& grid = current_->self_->cta->grid;
    await_next(grid.is_first, 0);
    if constexpr (kFindsRaces) current_->self_->memory.knows.join(grid.stream.over);
  }
  // So does this CTA let the next launch begin.
  static void let_next_launch_begin() { current_->self_->cta->lets_next_begin = true; }

  // What a copy engine does, or a host: what it accesses.
  static void copy(void* to, const void* from, size_t bytes) {
    loads(from, bytes);
    stores(to, bytes);
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  static void loads(const void* from, size_t bytes) {
    if constexpr (kFindsRaces) RaceDetector::touch(from, bytes, RaceDetector::Kind::kLoad, nullptr);
  }
  static void stores(void* to, size_t bytes) {
    if constexpr (kFindsRaces) RaceDetector::touch(to, bytes, RaceDetector::Kind::kStore, nullptr);
  }

  // A clock for bounded waits: a turn of all threads lasts a second. Who looks at it has waited for long.
  static uint64_t nanoseconds_now() {
    pause();
    return current_->turn_ * 1'000'000'000;
  }

 private:
  static constexpr uint64_t kMostTurns = 200'000;
  // In one turn of so many a thread is held up, for 1, 2, 4, … 64 turns.
  static constexpr uint64_t kTurnsBetweenHolds = 4, kHoldLengths = 7;
  static constexpr uint64_t kPairsBetweenPauses = 4;  // in one pair of words of so many others run in between
  static constexpr size_t kStackBytes = 64 << 10;

  static bool one_in(uint64_t times) { return current_->random_() % times == 0; }

  // Waits until `generation` is no longer `mine`. Before that the thread need not run.
  static void await_next(const uint64_t& generation, uint64_t mine) {
    current_->self_->awaited = &generation;
    current_->self_->not_after = mine;
    while (generation == mine) pause();
    current_->self_->awaited = nullptr;
  }

  static constexpr bool kFindsRaces = PLAIT_FINDS_RACES != 0;

  // Orders what the threads that come access before and after.
  struct Order {
    RaceDetector::Meeting meeting;

    void come() {
      if constexpr (kFindsRaces) meeting.come(current_->self_->memory);
    }
    void complete() {
      if constexpr (kFindsRaces) meeting.complete();
    }
    void leave() const {
      if constexpr (kFindsRaces) current_->self_->memory.knows = meeting.known();
    }
    void leave_after_loads() const {
      if constexpr (kFindsRaces) current_->self_->memory.knows.loads = meeting.known().loads;
    }
  };

  // Where threads meet: the first one that comes says.
  struct MeetingPlace {
    Location first;

    void come(bool is_first, const Location& at) {
      if (is_first) {
        first = at;
      } else if (!is_same(first, at) && current_->divergence_.empty()) {
        current_->divergence_ = "some threads are at " + to_text(first) + ", others at " + to_text(at);
      }
    }
    static bool is_same(const Location& a, const Location& b) {
      const auto is_same_text = [](const char* one, const char* other) {
        return one == other || std::strcmp(one, other) == 0;
      };
      return a.line() == b.line() && a.column() == b.column() && is_same_text(a.file_name(), b.file_name()) &&
             is_same_text(a.function_name(), b.function_name());
    }
    static std::string to_text(const Location& at) {
      return std::string(at.file_name()) + ":" + std::to_string(at.line()) + ":" + std::to_string(at.column()) + " (" +
             at.function_name() + ")";
    }
  };

  // Of so many threads as are alive.
  struct Meeting {
    unsigned alive = 0, arrived = 0;
    uint64_t generation = 0;
    bool all = true, result = true;
    MeetingPlace place;
    Order order;

    bool meet(bool value, const Location& at) {
      place.come(arrived == 0, at);
      all = all && value;
      ++arrived;
      const uint64_t mine = generation;
      go_on_if_complete();
      await_next(generation, mine);
      return result;
    }
    void leave() {
      --alive;
      go_on_if_complete();
    }
    void go_on_if_complete() {
      if (arrived == 0 || arrived != alive) return;
      result = all;
      all = true;
      arrived = 0;
      ++generation;
      order.complete();
    }
  };

  // Of as many threads as those say that come, be they still there or not.
  struct NamedBarrier {
    uint32_t arrived = 0, threads = 0;
    uint64_t generation = 0;
    bool all = true, result = true;
    Order order;

    void arrive(uint32_t its_threads, bool value) {
      if (arrived > 0 && its_threads != threads) current_->divergence_ = "threads of a named barrier count differently";
      threads = its_threads;
      all = all && value;
      order.come();
      if (++arrived < threads) return;
      result = all;
      all = true;
      arrived = 0;
      ++generation;
      order.complete();
    }
  };

  struct Warp {
    unsigned alive = 0, arrived = 0;
    uint64_t generation = 0;
    std::array<uint64_t, 32> values{};
    Votes votes{};
    std::array<Meeting, 4> eights;
    MeetingPlace place;
    Order order;

    const Votes& meet(unsigned lane, uint64_t value, const Location& at) {
      place.come(arrived == 0, at);
      values[lane] = value;
      arrived |= 1u << lane;
      const uint64_t mine = generation;
      go_on_if_complete();
      await_next(generation, mine);
      return votes;
    }
    void enter(unsigned lane) {
      alive |= 1u << lane;
      ++eights[lane / 8].alive;
    }
    void leave(unsigned lane) {
      eights[lane / 8].leave();
      alive &= ~(1u << lane);
      go_on_if_complete();
    }
    void go_on_if_complete() {
      if (arrived == 0 || arrived != alive) return;
      votes = {values, alive};
      arrived = 0;
      ++generation;
      order.complete();
    }
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
  };

  struct Cta {
    Cta(Grid& its_grid, RaceDetector& detector) : grid(its_grid), races(detector) {}
    ~Cta() {
      for (const auto& [type, array] : arrays) races.forget(array.get());
    }
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
    uint64_t held_until = 0;  // a turn
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

  static bool is_over(const Grid& grid) {
    return std::all_of(grid.threads.begin(), grid.threads.end(), [](const auto& it) { return it->is_done; });
  }
  static bool lets_next_begin(const Grid& grid) {
    return std::all_of(grid.ctas.begin(), grid.ctas.end(),
                       [](const std::shared_ptr<Cta>& cta) { return cta->lets_next_begin || cta->barrier.alive == 0; });
  }

  static void begin_next(Stream& stream) {
    while (!stream.running.empty() && is_over(*stream.running.front())) {
      if constexpr (kFindsRaces) {
        RaceDetector::Meeting& ended = stream.running.front()->order.meeting;
        ended.complete();
        stream.over.join(ended.known());
      }
      stream.running.pop_front();
    }
    if (!stream.running.empty()) stream.running.front()->is_first = 1;
    if (stream.waiting.empty()) return;
    const bool is_next = stream.running.empty() || (stream.waiting.front().early && stream.running.size() == 1 &&
                                                    lets_next_begin(*stream.running.front()));
    if (!is_next) return;
    const Launch launch = std::move(stream.waiting.front());
    stream.waiting.pop_front();
    Grid& grid = *stream.running.emplace_back(std::make_unique<Grid>(stream));
    stream.is_odd = !stream.is_odd;
    grid.is_first = stream.running.size() == 1 ? 1 : 0;
    for (unsigned y = 0; y < launch.grid.y; ++y) {
      for (unsigned x = 0; x < launch.grid.x; ++x) current_->add_cta(grid, launch, {x, y, 0});
    }
  }

  void add_cta(Grid& grid, const Launch& launch, uint3 block) {
    const auto cta = std::make_shared<Cta>(grid, races_);
    grid.ctas.push_back(cta);
    std::shared_ptr<Warp> warp;
    for (unsigned t = 0; t < launch.block.x; ++t) {
      if (t % 32 == 0) warp = std::make_shared<Warp>();
      auto thread = std::make_unique<Thread>();
      thread->indices = {{t, 0, 0}, block, launch.block, launch.grid};
      thread->warp = warp;
      thread->cta = cta;
      thread->body = launch.body;
      if constexpr (kFindsRaces) {
        const unsigned number = block.y * launch.grid.x + block.x;
        thread->memory = races_.begin({grid.stream.number, number, t, grid.stream.is_odd}, grid.stream.over);
      }
      warp->enter(t % 32);
      ++cta->barrier.alive;
      grid.threads.push_back(std::move(thread));
    }
  }

  bool can_go_on(const Thread& thread) const {
    const bool waits = thread.awaited != nullptr && *thread.awaited == thread.not_after;
    return !thread.is_done && !waits && thread.held_until <= turn_;
  }

  void step(Thread& thread) {
    self_ = &thread;
    if constexpr (kFindsRaces) races_.run(finds_races_ ? &thread.memory : nullptr, thread.fiber.stack());
    thread.fiber.resume();
    if constexpr (kFindsRaces) races_.run(nullptr, {});
  }

  static void perform() {
    Thread& self = *current_->self_;
    self.body();
    self.cta->grid.order.come();
    if constexpr (kFindsRaces) current_->races_.end(self.memory);
    self.warp->leave(lane());
    self.cta->barrier.leave();
    self.is_done = true;
  }

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
