// Finds races of simulated threads (simt.hpp). A race is two accesses to the same bytes, one of them a store, that
// nothing orders: on a GPU either may come first, whatever happened here.
//
// The order is happens-before, kept as vector clocks (FastTrack, Flanagan and Freund), by the rules that kernels follow
// (runtime/cuda/device/ptx.cuh). Barriers, release and acquire, fences and ends of launches order all earlier accesses.
// A relaxed store that another thread has seen, a vote and a shuffle order only earlier loads: the other thread may
// then overwrite what was loaded, but must not read what was stored. Nor may it overwrite that, unless it was released
// earlier. Atomic accesses do not race with each other, not even stores to one word that may come in either order.
//
// Compilers report the accesses: with -fsanitize=thread they call a function at each access. Here these functions
// belong to the detector and not to the sanitizer, so programs are compiled with that option but not linked with it.
// gcc does not report memcpy() where it calls the function, as it does for lengths that it does not know.
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
#define PLAIT_FINDS_RACES 0  // 1 in files that are compiled for the detector
#endif

namespace plait::test {

// A vector clock: for each thread, how many of its steps come before something else. A step of a thread ends when it
// publishes something.
class View {
 public:
  struct Clock {
    uint32_t thread, now;
  };
  uint32_t of(uint32_t thread) const;
  void join(const View& other);
  void set(std::span<const Clock> clocks);

 private:
  static constexpr uint32_t kShared = 32;  // the clocks of so many threads are shared until one changes
  using Clocks = std::array<uint32_t, kShared>;
  using Parts = std::vector<std::shared_ptr<Clocks>>;

  static bool is_within(const Clocks& one, const Clocks& other);
  // Makes a private copy, to change it.
  template <class Shared>
  static Shared& own(std::shared_ptr<Shared>& shared);

  std::shared_ptr<Parts> parts_;  // shared by several views until one changes, and so is each part
};

// The knowledge that threads pass to each other: which accesses come before.
struct Knowledge {
  View stores;  // stores that are visible
  View loads;   // loads that are over
  View placed;  // stores that have reached memory, because they were released: a store now comes after them

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
    uint64_t observed = 0;  // the number of the last publication that it has acquired
    View fenced;            // what its relaxed stores publish: the stores before its last fence
    View to_fence;          // what its next fence makes visible: stores published to its relaxed loads
  };
  // The place where a thread runs.
  struct Place {
    size_t stream = 0;
    unsigned cta = 0, thread = 0;
    bool is_odd = false;  // alternates from launch to launch of the stream
    friend auto operator<=>(const Place&, const Place&) = default;
  };

  RaceDetector() = default;
  RaceDetector(const RaceDetector&) = delete;
  RaceDetector& operator=(const RaceDetector&) = delete;

  // Only accesses to watched memory are checked. Watched regions must not overlap. `name` is for reports.
  void watch(const void* start, size_t bytes, std::string name);
  void forget(const void* start);

  // A thread starts, after what it knows, and ends. At each place there is one thread at a time.
  Thread begin(const Place& place, const Knowledge& knows);
  void end(const Thread& thread);
  // All earlier launches are over.
  static void learn(Thread& self, const Knowledge& of_launches);
  // A synchronisation: what the threads that arrive have done is known to all of them afterwards.
  class SyncPoint {
   public:
    void arrive(Thread& self);
    void complete();
    // The same at the end of a launch, when all stores have reached memory.
    void complete_launch();
    const Knowledge& known() const { return known_; }

   private:
    Knowledge gathered_, known_;
    std::vector<View::Clock> arrived_;
  };

  // Says which thread makes the accesses from now on; null: none. Its stack is private.
  void run(Thread* thread, std::span<const char> stack);

  // A description of the first race; "": none.
  const std::string& race() const { return race_; }

  // ---- Accesses of the running thread, if there is one.

  enum class Kind : uint8_t { kLoad, kStore, kAtomicLoad, kAtomicStore, kAtomicUpdate };
  static void touch(const void* address, size_t bytes, Kind kind, const void* code);
  // Call these before the atomic access.
  static void load_atomic(const void* from, size_t bytes, int order, const void* code);
  static void store_atomic(const void* to, size_t bytes, int order, const void* code);
  static void update_atomic(const void* word, size_t bytes, int order, const void* code);
  static void fence();

 private:
  static constexpr uintptr_t kGranule = 8;   // bytes
  static constexpr size_t kRemembered = 12;  // the last accesses to a granule: more than it has bytes
  static constexpr uintptr_t kPageBytes = 4096;

  struct Access {
    uint32_t thread = 0, clock = 0;
    const void* code = nullptr;
    Kind kind = Kind::kLoad;
    uint8_t bytes = 0;  // a bit for each; 0: none
  };
  using Cell = std::array<Access, kRemembered>;
  // The knowledge that an atomic word publishes.
  struct Word {
    Knowledge published;
    uint64_t number = 0;  // of this publication, among all
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

  void update_region(const Region& region);
  bool is_watched(uintptr_t granule) const;
  Page* page_at(uintptr_t address);
  Page* find_page(uintptr_t number);
  static Word* word_at(const void* address);
  static void observe(const Word& word, int order);
  static void publish(Word& word, int order);
  static View all_stores();
  void access(const Thread& self, uintptr_t address, size_t bytes, Kind kind, const void* code);
  static bool is_ordered(const Thread& self, const Access& before, Kind kind);
  static void remember(Cell& cell, const Thread& self, const Access& access);
  void report(const Access& before, const Access& after, uintptr_t at);
  std::string describe(const Access& access) const;

  std::map<uintptr_t, Region> watched_;                         // by start
  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages_;  // by number; null: nothing there is watched
  std::array<std::pair<uintptr_t, Page*>, 1 << 14> found_{};    // a cache of pages
  uint64_t published_ = 0;
  std::map<Place, uint32_t> ids_;
  std::vector<Place> places_;     // by id
  std::vector<uint32_t> clocks_;  // by id: where the clock of the next thread there starts
  std::string race_;
};

}  // namespace plait::test
