// The simulated GPU that runs kernels on a CPU: threads synchronise, and it finds threads that synchronise at different
// places, and races.
#include "support/simt.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace plait::test {
namespace {

constexpr unsigned kAll = 0xffffffff;

// Runs a kernel with one CTA of two warps, and returns the error; "": none.
std::string objection(const std::function<void()>& kernel) {
  Simt machine(1);
  machine.launch(0, {1}, {64}, kernel);
  try {
    machine.run();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

void cta_barrier() { __syncthreads(); }
void next_barrier() { __syncthreads(); }
void cta_vote() { __syncthreads_and(true); }
void warp_barrier() { __syncwarp(); }
void vote_of_all() { __all_sync(kAll, true); }
void vote_of_any() { __any_sync(kAll, true); }
void ballot() { __ballot_sync(kAll, true); }
void shuffle() { __shfl_sync(kAll, 1, 0, 32); }
void upwards() { __shfl_up_sync(kAll, 1, 1); }
void store_line() {
  alignas(16) uint64_t words[2];
  ptx::store_line(words, 1, 2);
}
void load_line() {
  alignas(16) const uint64_t words[2] = {1, 2};
  uint64_t low, high;
  ptx::load_line(words, low, high);
}
template <int number>
void instance() {
  __syncwarp();
}

TEST(Simt, ThreadsSynchroniseAtOnePlace) {
  EXPECT_EQ(objection([] {
              for (int time = 0; time < 3; ++time) {
                for (const auto sync : {cta_barrier, next_barrier, cta_vote, warp_barrier, vote_of_all, vote_of_any,
                                        ballot, shuffle, upwards, store_line, load_line, instance<1>, instance<2>}) {
                  sync();
                }
              }
            }),
            "");
  // Warps are independent, and nobody waits for threads that have ended.
  EXPECT_EQ(objection([] {
              threadIdx.x < 32 ? shuffle() : ballot();
              if (threadIdx.x % 3 == 0) return;
              warp_barrier();
              cta_barrier();
            }),
            "");
}

TEST(Simt, FindsThreadsThatSynchroniseAtDifferentPlaces) {
  const auto expect_found = [](void (*one)(), const std::string& name, void (*other)(), const std::string& other_name) {
    const std::string found = objection([=] { threadIdx.x % 2 == 0 ? one() : other(); });
    for (const std::string& expected : {name, other_name, std::string("simt_test.cpp:")}) {
      EXPECT_NE(found.find(expected), std::string::npos) << name << ", " << other_name << ": " << found;
    }
  };
  expect_found(cta_barrier, "cta_barrier", next_barrier, "next_barrier");
  expect_found(cta_barrier, "cta_barrier", cta_vote, "cta_vote");
  expect_found(warp_barrier, "warp_barrier", vote_of_all, "vote_of_all");
  expect_found(vote_of_any, "vote_of_any", ballot, "ballot");
  expect_found(ballot, "ballot", shuffle, "shuffle");
  expect_found(shuffle, "shuffle", upwards, "upwards");
  expect_found(upwards, "upwards", warp_barrier, "warp_barrier");
  expect_found(store_line, "store_line", load_line, "load_line");
}

// Two calls in one line are two places, and so are two instances of a template.
TEST(Simt, PlacesInOneLine) {
  const auto two_in_a_line = [] { threadIdx.x % 2 == 0 ? __syncwarp() : __syncwarp(); };
  EXPECT_NE(objection(two_in_a_line), "");
  EXPECT_NE(objection([] { threadIdx.x % 2 == 0 ? instance<1>() : instance<2>(); }), "");
}

// If not all threads of a CTA come to a barrier, the others wait for ever.
TEST(Simt, FindsThreadsThatDoNotCome) {
  EXPECT_EQ(objection([] { threadIdx.x < 40 ? warp_barrier() : cta_barrier(); }), "threads wait for ever");
}

TEST(Simt, NamedBarriersWaitForThreadsThatArriveOrSync) {
  int arrived = 0;
  EXPECT_EQ(objection([&] {
              for (int time = 1; time <= 3; ++time) {
                if (threadIdx.x >= 32) {
                  ptx::barrier_sync(1, 64);
                  EXPECT_GE(arrived, 32 * time);
                  cta_barrier();
                  continue;
                }
                ++arrived;
                ptx::barrier_arrive(1, 64);
                const bool all = ptx::barrier_and<15>(threadIdx.x != 5 || time == 2, 32);
                EXPECT_EQ(all, time == 2);
                cta_barrier();
              }
            }),
            "");
  EXPECT_EQ(objection([] { ptx::barrier_sync(1, 96); }), "threads wait for ever");
  EXPECT_EQ(objection([] { ptx::barrier_sync(1, threadIdx.x < 32 ? 64 : 32); }),
            "threads of a named barrier count differently");
  EXPECT_EQ(objection([] {
              if (threadIdx.x < 32) ptx::barrier_arrive(1, 64), ptx::barrier_arrive(1, 64);
            }),
            "a thread arrives twice at a named barrier before all others have arrived");
}

// How often a thread that loads two words sees one newer than the other, while another thread stores both.
struct Apart {
  int low_newer = 0, high_newer = 0;
};
template <class Store, class Load>
Apart seen_apart(const Store& store, const Load& load) {
  constexpr uint64_t kTimes = 200;
  alignas(128) uint64_t words[16] = {};
  Apart seen;
  Simt machine(1);
  machine.launch(0, {1}, {64}, [&] {
    uint64_t* const mine = words + 2 * (threadIdx.x % 8);
    if (threadIdx.x % 32 >= 8) return;
    for (uint64_t time = 1; time <= kTimes; ++time) {
      Simt::pause();
      if (threadIdx.x < 32) {
        store(mine, time);
        continue;
      }
      uint64_t low, high;
      load(mine, low, high);
      seen.low_newer += low > high ? 1 : 0;
      seen.high_newer += high > low ? 1 : 0;
    }
  });
  machine.run();
  return seen;
}

TEST(Simt, TwoWordsMayBeSplitUnlessTheyAreInALine) {
  const auto load = [](const uint64_t* from, uint64_t& low, uint64_t& high) { ptx::load_relaxed(from, low, high); };
  const auto load_both = [](const uint64_t* from, uint64_t& low, uint64_t& high) { low = from[0], high = from[1]; };
  const auto load_line = [](const uint64_t* from, uint64_t& low, uint64_t& high) { ptx::load_line(from, low, high); };
  const auto store = [](uint64_t* to, uint64_t time) { ptx::store_relaxed(to, time, time); };
  const auto store_both = [](uint64_t* to, uint64_t time) { to[0] = to[1] = time; };
  const auto store_line = [](uint64_t* to, uint64_t time) { ptx::store_line(to, time, time); };
  for (const Apart& seen : {seen_apart(store, load_both), seen_apart(store_both, load)}) {
    EXPECT_GT(seen.low_newer, 10);
    EXPECT_GT(seen.high_newer, 10);
  }
  const Apart lines = seen_apart(store_line, load_line);
  EXPECT_EQ(lines.low_newer + lines.high_newer, 0);
}

// Whether a kernel ran while the previous one did.
bool overlaps(bool lets_begin, bool pdl) {
  Simt machine(1);
  bool is_over = false, came = false, came_before_end = false, waited = true;
  machine.launch(0, {2}, {32}, [&] {
    if (lets_begin) Simt::let_next_launch_begin();
    for (int turn = 0; turn < 100; ++turn) Simt::pause();
    is_over = true;
  });
  const auto next = [&] {
    came = true;
    came_before_end = came_before_end || !is_over;
    Simt::await_launch_before();
    waited = waited && is_over;
  };
  machine.launch(0, {1}, {32}, next, pdl);
  machine.run();
  EXPECT_TRUE(came && waited);
  return came_before_end;
}

TEST(Simt, LaunchesOverlapIfBothUsePdl) {
  EXPECT_TRUE(overlaps(true, true));
  EXPECT_FALSE(overlaps(true, false));
  EXPECT_FALSE(overlaps(false, true));
  EXPECT_FALSE(overlaps(false, false));
}

// ---- Races

class Races : public testing::Test {
 protected:
  void SetUp() override {
    if (!PLAIT_FINDS_RACES) GTEST_SKIP() << "not compiled in";
  }

  // Performs each function in a CTA of one thread. Returns the report of a race, or "".
  std::string among(const std::vector<std::function<void()>>& ctas) {
    return of_kernel({static_cast<unsigned>(ctas.size())}, {1}, [&] { ctas[blockIdx.x](); });
  }
  // The same for the threads of one CTA.
  std::string in_cta(const std::function<void()>& kernel) { return of_kernel({1}, {64}, kernel); }

  std::string of_kernel(dim3 grid, dim3 block, const std::function<void()>& kernel) {
    Simt machine(1);
    find_races(machine);
    machine.launch(0, grid, block, kernel);
    return objection_of(machine);
  }
  void find_races(Simt& machine) {
    memory_ = {};
    machine.watch(&memory_, sizeof(memory_), "the memory");
    machine.find_races();
  }
  static std::string objection_of(Simt& machine) {
    try {
      machine.run();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }

  struct Memory {
    uint64_t data = 0, flag = 0, next_flag = 0;
    unsigned count = 0;
    alignas(16) uint4 vectors[2] = {};
  };
  // Accesses of threads, which compilers must not optimise away.
  static void store(uint64_t& word) { *const_cast<volatile uint64_t*>(&word) = 1; }
  static void load(const uint64_t& word) {
    [[maybe_unused]] const uint64_t value = *const_cast<const volatile uint64_t*>(&word);
  }
  void store_data() { store(memory_.data); }
  void load_data() { load(memory_.data); }
  void release() { ptx::store_release(&memory_.flag, 1); }
  void relaxed_store() { ptx::store_relaxed(&memory_.flag, 1); }
  void acquire() {
    while (ptx::load_acquire(&memory_.flag) == 0) Simt::pause();
  }
  void relaxed_load() {
    while (ptx::load_relaxed(&memory_.flag) == 0) Simt::pause();
  }

  Memory memory_;
};

TEST_F(Races, ReleaseAndAcquireOrderAll) {
  const auto store_and_release = [&] { store_data(), release(); };
  const auto store_and_relaxed_store = [&] { store_data(), relaxed_store(); };
  EXPECT_EQ(among({store_and_release, [&] { acquire(), load_data(); }}), "");
  EXPECT_EQ(among({store_and_release, [&] { acquire(), store_data(); }}), "");
  EXPECT_NE(among({store_and_relaxed_store, [&] { acquire(), load_data(); }}), "");
  EXPECT_NE(among({store_and_release, [&] { relaxed_load(), load_data(); }}), "");
  EXPECT_NE(among({[&] { release(), store_data(); }, [&] { acquire(), load_data(); }}), "");
  EXPECT_NE(among({store_and_release, [&] { load_data(), acquire(); }}), "");
  // Relaxed accesses do, too, with fences.
  EXPECT_EQ(among({[&] { store_data(), __threadfence(), relaxed_store(); },
                   [&] { relaxed_load(), __threadfence(), load_data(); }}),
            "");
  EXPECT_NE(among({[&] { __threadfence(), store_data(), relaxed_store(); },
                   [&] { relaxed_load(), __threadfence(), load_data(); }}),
            "");
}

// A thread also passes on what it has acquired.
TEST_F(Races, OrderIsPassedOn) {
  const auto acquire_next = [&] {
    while (ptx::load_acquire(&memory_.next_flag) == 0) Simt::pause();
  };
  const auto store_and_release = [&] { store_data(), release(); };
  const auto release_next = [&] { acquire(), ptx::store_release(&memory_.next_flag, 1); };
  const auto relaxed_store_next = [&] { acquire(), ptx::store_relaxed(&memory_.next_flag, 1); };
  EXPECT_EQ(among({store_and_release, release_next, [&] { acquire_next(), load_data(); }}), "");
  EXPECT_NE(among({store_and_release, relaxed_store_next, [&] { acquire_next(), load_data(); }}), "");
  // A released store has reached memory, so a later store comes after it.
  EXPECT_EQ(among({store_and_release, relaxed_store_next, [&] { acquire_next(), store_data(); }}), "");
}

// The rule of ptx.cuh for memory that may be reused.
TEST_F(Races, RelaxedStoresOrderEarlierLoads) {
  const auto relaxed_load_and_store = [&] { relaxed_load(), store_data(); };
  EXPECT_EQ(among({[&] { load_data(), relaxed_store(); }, relaxed_load_and_store}), "");
  EXPECT_NE(among({[&] { relaxed_store(), load_data(); }, relaxed_load_and_store}), "");
  EXPECT_NE(among({[&] { store_data(), relaxed_store(); }, relaxed_load_and_store}), "");
}

TEST_F(Races, BarriersOrderAll) {
  const auto after = [&](const std::function<void()>& barrier) {
    return in_cta([&] {
      if (threadIdx.x == 0) store_data();
      barrier();
      if (threadIdx.x == 33) load_data();
    });
  };
  EXPECT_EQ(after([] { __syncthreads(); }), "");
  EXPECT_EQ(after([] { __syncthreads_and(true); }), "");
  EXPECT_EQ(after([] { ptx::barrier_sync(3, 64); }), "");
  EXPECT_EQ(after([] { threadIdx.x < 32 ? ptx::barrier_arrive(3, 64) : ptx::barrier_sync(3, 64); }), "");
  EXPECT_NE(after([] { threadIdx.x >= 32 ? ptx::barrier_arrive(3, 64) : ptx::barrier_sync(3, 64); }), "");
  EXPECT_NE(after([] { ptx::barrier_sync(1 + threadIdx.x / 32, 32); }), "");
  EXPECT_NE(after([] { __syncwarp(); }), "");
  // A thread that only arrives goes on, and may publish more before the others come.
  EXPECT_EQ(in_cta([&] {
              if (threadIdx.x < 32) {
                ptx::barrier_arrive(3, 64);
                if (threadIdx.x == 0) store_data(), release();
                return;
              }
              if (threadIdx.x == 33) acquire();
              __syncwarp();
              ptx::barrier_sync(3, 64);
              if (threadIdx.x == 33) load_data();
            }),
            "");
}

// Votes order a thread's earlier loads, but its stores need not be visible.
TEST_F(Races, VotesOrderEarlierLoads) {
  const auto after = [&](const std::function<void()>& vote, bool loads_first) {
    return in_cta([&] {
      if (threadIdx.x == 0) loads_first ? load_data() : store_data();
      vote();
      if (threadIdx.x == 1) loads_first ? store_data() : load_data();
    });
  };
  const auto all_vote = [] { __all_sync(kAll, true); };
  EXPECT_EQ(after(all_vote, true), "");
  EXPECT_NE(after(all_vote, false), "");
  EXPECT_EQ(after([] { __syncwarp(); }, true), "");
  EXPECT_EQ(after([] { __syncwarp(); }, false), "");
  EXPECT_NE(after([] {}, true), "");
}

TEST_F(Races, LaunchesOfAStreamAreOrdered) {
  const auto race = [&](bool pdl, bool waits, size_t stream) {
    Simt machine(1);
    find_races(machine);
    machine.launch(0, {1}, {1}, [&] {
      Simt::let_next_launch_begin();
      store_data();
      for (int turn = 0; turn < 100; ++turn) Simt::pause();
    });
    machine.launch(
        stream, {1}, {1},
        [&] {
          if (waits) Simt::await_launch_before();
          load_data();
        },
        pdl);
    return objection_of(machine);
  };
  EXPECT_EQ(race(false, false, 0), "");
  EXPECT_EQ(race(true, true, 0), "");
  EXPECT_NE(race(true, false, 0), "");
  EXPECT_NE(race(false, false, 1), "");
}

// Later launches may publish what a launch has stored.
TEST_F(Races, StoresOfALaunchHaveReachedMemory) {
  const auto race = [&](const std::function<void()>& on_another_stream) {
    Simt machine(1);
    find_races(machine);
    machine.launch(0, {1}, {1}, [&] { store_data(); });
    machine.launch(0, {1}, {1}, [&] { relaxed_store(); });
    machine.launch(1, {1}, {1}, on_another_stream);
    return objection_of(machine);
  };
  EXPECT_EQ(race([&] { acquire(), load_data(); }), "");
  EXPECT_EQ(race([&] { relaxed_load(), store_data(); }), "");
  EXPECT_NE(race([&] { relaxed_load(), load_data(); }), "");
}

TEST_F(Races, AtomicsRaceOnlyWithOtherAccesses) {
  EXPECT_EQ(among({[&] { relaxed_store(); }, [&] { relaxed_store(); }, [&] { relaxed_load(); }}), "");
  EXPECT_NE(among({[&] { relaxed_store(); }, [&] { store(memory_.flag); }}), "");
  EXPECT_NE(among({[&] { relaxed_store(); }, [&] { load(memory_.flag); }}), "");
  // The thread that counts last comes after all others, if there are fences on both sides.
  const auto count = [&](bool before, bool after) {
    return of_kernel({3}, {1}, [&, before, after] {
      store(reinterpret_cast<uint64_t*>(memory_.vectors)[blockIdx.x]);
      if (before) __threadfence();
      const bool is_last = atomicAdd(&memory_.count, 1) == 2;
      if (after) __threadfence();
      for (size_t i = 0; is_last && i < 3; ++i) load(reinterpret_cast<uint64_t*>(memory_.vectors)[i]);
    });
  };
  EXPECT_EQ(count(true, true), "");
  EXPECT_NE(count(false, true), "");
  EXPECT_NE(count(true, false), "");
}

TEST_F(Races, AreForTheSameBytesOnly) {
  auto* const bytes = reinterpret_cast<volatile char*>(memory_.vectors);
  EXPECT_EQ(among({[=] { bytes[2] = 1; }, [=] { bytes[3] = 1; }}), "");
  EXPECT_NE(among({[=] { bytes[3] = 1; }, [=] { bytes[3] = 2; }}), "");
  const auto load_part = [&](unsigned first, unsigned last) {
    return [this, first, last] { ptx::load_around(memory_.vectors, first, last); };
  };
  EXPECT_EQ(among({[=] { bytes[5] = 1; }, load_part(6, 16)}), "");
  EXPECT_NE(among({[=] { bytes[5] = 1; }, load_part(5, 16)}), "");
  EXPECT_NE(among({[&] { memory_.vectors[0] = {1, 2, 3, 4}; }, [=] { bytes[15] = 1; }}), "");
  // Also with many other accesses.
  for (int byte = 0; byte < 8; ++byte) {
    std::vector<std::function<void()>> ctas;
    for (int i = 0; i < 8; ++i) ctas.push_back([=] { bytes[i] = 1; });
    ctas.push_back([=] {
      for (int turn = 0; turn < 100; ++turn) Simt::pause();
      bytes[byte] = 2;
    });
    EXPECT_NE(among(ctas), "") << byte;
  }
  EXPECT_NE(among({[&] { Simt::copy(memory_.vectors, &memory_, 16); }, [=] { bytes[15] = 1; }}), "");
}

TEST_F(Races, AreReported) {
  const auto load_later = [&] {
    for (int turn = 0; turn < 100; ++turn) Simt::pause();
    load_data();
  };
  const std::string report = among({[&] { store_data(); }, load_later});
  for (const char* const part :
       {"a race for the memory around byte 0: thread 0 of CTA 0 on stream 0 (at 0x",
        ") stores, thread 0 of CTA 1 on stream 0 (at 0x", ") loads, and nothing orders the two"}) {
    EXPECT_NE(report.find(part), std::string::npos) << report;
  }
}

}  // namespace
}  // namespace plait::test
