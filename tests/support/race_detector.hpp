// Finds races of simulated threads (simt.hpp): two accesses of one place, one of them a store, that nothing puts in an
// order, so that on a GPU either may come first, whatever came of them here.
//
// What is in an order follows from happens-before, as vector clocks keep it (FastTrack, Flanagan and Freund), by the
// rules that kernels go by (runtime/cuda/device/ptx.cuh): barriers, release and acquire, fences, and ends of launches
// put everything in an order. A relaxed store that another thread has seen, and a vote or a shuffle, only what was
// loaded before it: that may be overwritten then, but what was stored may not be read. Nor may it be overwritten, but
// for what was released earlier. Atomic accesses do not race with each other, not even stores of one word that may come
// in either order.
//
// Compilers say what is accessed: with -fsanitize=thread they call a function at each access, which here is this
// detector's and not that sanitizer's. So a program is compiled with that, and not linked with it. Of memcpy() gcc says
// nothing where it calls the function, as for lengths that it does not know.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#ifndef PLAIT_FINDS_RACES
#define PLAIT_FINDS_RACES 0  // what is compiled so says 1
#endif

namespace plait::test {

// A vector clock: of each thread how many of its steps are before something else. A thread's step ends where it tells
// others of it.
class View {
 public:
  struct Clock {
    uint32_t thread, now;
  };
  uint32_t of(uint32_t thread) const;
  void join(const View& other);
  void set(std::span<const Clock> clocks);

 private:
  static constexpr uint32_t kTogether = 32;  // threads, whose clocks are shared until one changes
  using Clocks = std::array<uint32_t, kTogether>;
  using Parts = std::vector<std::shared_ptr<Clocks>>;

  static bool is_within(const Clocks& one, const Clocks& other);
  // To change it.
  template <class Shared>
  static Shared& own(std::shared_ptr<Shared>& shared);

  std::shared_ptr<Parts> parts_;  // of several views, as each of them is, until one changes
};

// What passes from thread to thread: the accesses before it.
struct Knowledge {
  View stores;  // that can be seen
  View loads;   // that are over
  View placed;  // stores that are where they go, as they were released, so that what is stored now comes after them

  void join(const Knowledge& other) {
    stores.join(other.stores);
    loads.join(other.loads);
    placed.join(other.placed);
  }
};

class RaceDetector {
 public:
  struct Thread {
    uint32_t id = 0;
    uint32_t now = 1;
    Knowledge knows;
    uint64_t heard = 0;  // the number of what was said last with a word that it has loaded
    View fenced;         // what its relaxed stores pass on: what was before its last fence
    View to_fence;       // what its next fence makes known: what came with relaxed loads
  };
  // Where a thread is, in words of the machine.
  struct Place {
    size_t stream = 0;
    unsigned cta = 0, thread = 0;
    bool is_odd = false;  // of every other launch of the stream
    friend auto operator<=>(const Place&, const Place&) = default;
  };

  RaceDetector() = default;
  RaceDetector(const RaceDetector&) = delete;
  RaceDetector& operator=(const RaceDetector&) = delete;

  // Accesses are looked at in what is watched, which does not overlap; `name` is for reports.
  void watch(const void* start, size_t bytes, std::string name);
  void forget(const void* start);

  // A thread begins, after what it knows, and ends. At one place there is one at a time.
  Thread begin(const Place& place, const Knowledge& knows);
  void end(const Thread& thread);
  // All launches before are over.
  static void learn(Thread& self, const Knowledge& of_launches);
  // What all have done who come to where threads meet is known from there on.
  class Meeting {
   public:
    void come(Thread& self);
    void complete();
    // The same at the end of a launch: what was stored is where it goes.
    void complete_launch();
    const Knowledge& known() const { return known_; }

   private:
    Knowledge told_, known_;
    std::vector<View::Clock> came_;
  };

  // Whose accesses follow; null: nobody's. What is on its stack is its own.
  void run(Thread* thread, std::span<const char> stack);

  // The first one that was found, in words; none: "".
  const std::string& race() const { return race_; }

  // ---- For what accesses memory: on behalf of the thread that runs, if one does.

  enum class Kind : uint8_t { kLoad, kStore, kAtomicLoad, kAtomicStore, kAtomicUpdate };
  static void touch(const void* address, size_t bytes, Kind kind, const void* code);
  // Before an atomic access is made.
  static void load_atomic(const void* from, size_t bytes, int order, const void* code);
  static void store_atomic(const void* to, size_t bytes, int order, const void* code);
  static void update_atomic(const void* word, size_t bytes, int order, const void* code);
  static void fence();

 private:
  static constexpr uintptr_t kGranule = 8;   // bytes
  static constexpr size_t kRemembered = 12;  // accesses of a granule, the last ones: more than it has bytes
  static constexpr uintptr_t kPageBytes = 4096;

  struct Access {
    uint32_t thread = 0, clock = 0;
    const void* code = nullptr;
    Kind kind = Kind::kLoad;
    uint8_t bytes = 0;  // a bit for each; 0: none
  };
  using Cell = std::array<Access, kRemembered>;
  // What comes with an atomic one.
  struct Word {
    Knowledge said;
    uint64_t number = 0;  // of what was said, among all that was
  };
  using Words = std::array<Word, kPageBytes / sizeof(uint32_t)>;
  struct Page {
    std::bitset<kPageBytes / kGranule> watched;
    std::array<Cell, kPageBytes / kGranule> cells;
    std::unique_ptr<Words> words;  // from the first atomic access on
  };
  struct Region {
    uintptr_t start = 0, end = 0;
    std::string name;
  };

  void look_again(const Region& region);
  bool is_watched(uintptr_t granule) const;
  Page* page_at(uintptr_t address);
  Page* find_page(uintptr_t number);
  static Word* word_at(const void* address);
  static void hear(const Word& word, int order);
  static void say(Word& word, int order);
  static View all_stores();
  void access(const Thread& self, uintptr_t address, size_t bytes, Kind kind, const void* code);
  static bool is_ordered(const Thread& self, const Access& before, Kind kind);
  static void remember(Cell& cell, const Thread& self, const Access& access);
  void report(const Access& before, const Access& after, uintptr_t at);
  std::string describe(const Access& access) const;

  std::map<uintptr_t, Region> watched_;                         // by beginning
  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages_;  // by number; null: nothing there is watched
  std::array<std::pair<uintptr_t, Page*>, 1 << 14> found_{};    // some of them, for most accesses
  uint64_t said_ = 0;
  std::map<Place, uint32_t> ids_;
  std::vector<Place> places_;     // by id
  std::vector<uint32_t> clocks_;  // by id, where the next thread there goes on
  std::string race_;
};

}  // namespace plait::test
