// The machine that runs kernels on a CPU: who meets there, and that those who meet at different places are found, and
// races.
#include "support/simt.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace plait::test {
namespace {

constexpr unsigned kAll = 0xffffffff;

// What is wrong with a kernel, run by one CTA of two warps; nothing: "".
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

TEST(Simt, ThreadsMeetAtOnePlace) {
  EXPECT_EQ(objection([] {
              for (int time = 0; time < 3; ++time) {
                for (const auto meet : {cta_barrier, next_barrier, cta_vote, warp_barrier, vote_of_all, vote_of_any,
                                        ballot, shuffle, upwards, store_line, load_line, instance<1>, instance<2>}) {
                  meet();
                }
              }
            }),
            "");
  // Warps go their own ways, and who has left is not waited for.
  EXPECT_EQ(objection([] {
              threadIdx.x < 32 ? shuffle() : ballot();
              if (threadIdx.x % 3 == 0) return;
              warp_barrier();
              cta_barrier();
            }),
            "");
}

TEST(Simt, ThreadsThatMeetAtDifferentPlacesAreFound) {
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

// Each of two on a line is a place, and so is each instance of a template.
TEST(Simt, PlacesOnOneLine) {
  const auto two_on_a_line = [] { threadIdx.x % 2 == 0 ? __syncwarp() : __syncwarp(); };
  EXPECT_NE(objection(two_on_a_line), "");
  EXPECT_NE(objection([] { threadIdx.x % 2 == 0 ? instance<1>() : instance<2>(); }), "");
}

// Threads of a CTA that do not all come keep the others waiting.
TEST(Simt, ThreadsThatDoNotComeAreFound) {
  EXPECT_EQ(objection([] { threadIdx.x < 40 ? warp_barrier() : cta_barrier(); }), "threads wait for ever");
}

TEST(Simt, NamedBarriersWaitForThoseWhoArriveAndThoseWhoMeet) {
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
            "a thread comes twice to a named barrier that others have yet to come to");
}

// How often a thread that loads two words sees one of them newer than the other, if another thread stores both.
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

TEST(Simt, TwoWordsComeApartUnlessTheyAreOfALine) {
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
  const Apart of_lines = seen_apart(store_line, load_line);
  EXPECT_EQ(of_lines.low_newer + of_lines.high_newer, 0);
}

// Whether a kernel was on the machine while the one before it was.
bool overlaps(bool lets_begin, bool early) {
  Simt machine(1);
  bool is_over = false, came = false, came_early = false, waited = true;
  machine.launch(0, {2}, {32}, [&] {
    if (lets_begin) Simt::let_next_launch_begin();
    for (int turn = 0; turn < 100; ++turn) Simt::pause();
    is_over = true;
  });
  const auto next = [&] {
    came = true;
    came_early = came_early || !is_over;
    Simt::await_launch_before();
    waited = waited && is_over;
  };
  machine.launch(0, {1}, {32}, next, early);
  machine.run();
  EXPECT_TRUE(came && waited);
  return came_early;
}

TEST(Simt, LaunchesBeginEarlyWhereBothAgree) {
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

  // Performs each with a CTA of one thread: what is said of a race, or "".
  std::string among(const std::vector<std::function<void()>>& ctas) {
    return of_kernel({static_cast<unsigned>(ctas.size())}, {1}, [&] { ctas[blockIdx.x](); });
  }
  // The same of the threads of a CTA.
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
  // What threads do. Nothing of it is optimized away.
  static void store(uint64_t& word) { *const_cast<volatile uint64_t*>(&word) = 1; }
  static void load(const uint64_t& word) {
    [[maybe_unused]] const uint64_t value = *const_cast<const volatile uint64_t*>(&word);
  }
  void store_data() { store(memory_.data); }
  void load_data() { load(memory_.data); }
  void release() { ptx::store_release(&memory_.flag, 1); }
  void say() { ptx::store_relaxed(&memory_.flag, 1); }
  void acquire() {
    while (ptx::load_acquire(&memory_.flag) == 0) Simt::pause();
  }
  void hear() {
    while (ptx::load_relaxed(&memory_.flag) == 0) Simt::pause();
  }

  Memory memory_;
};

TEST_F(Races, ReleaseAndAcquireOrderAll) {
  const auto store_and_release = [&] { store_data(), release(); };
  const auto store_and_say = [&] { store_data(), say(); };
  EXPECT_EQ(among({store_and_release, [&] { acquire(), load_data(); }}), "");
  EXPECT_EQ(among({store_and_release, [&] { acquire(), store_data(); }}), "");
  EXPECT_NE(among({store_and_say, [&] { acquire(), load_data(); }}), "");
  EXPECT_NE(among({store_and_release, [&] { hear(), load_data(); }}), "");
  EXPECT_NE(among({[&] { release(), store_data(); }, [&] { acquire(), load_data(); }}), "");
  EXPECT_NE(among({store_and_release, [&] { load_data(), acquire(); }}), "");
  // With fences relaxed ones do.
  EXPECT_EQ(among({[&] { store_data(), __threadfence(), say(); }, [&] { hear(), __threadfence(), load_data(); }}), "");
  EXPECT_NE(among({[&] { __threadfence(), store_data(), say(); }, [&] { hear(), __threadfence(), load_data(); }}), "");
}

// Also what one has acquired and passes on.
TEST_F(Races, OrderIsPassedOn) {
  const auto acquire_next = [&] {
    while (ptx::load_acquire(&memory_.next_flag) == 0) Simt::pause();
  };
  const auto store_and_release = [&] { store_data(), release(); };
  const auto release_next = [&] { acquire(), ptx::store_release(&memory_.next_flag, 1); };
  const auto say_next = [&] { acquire(), ptx::store_relaxed(&memory_.next_flag, 1); };
  EXPECT_EQ(among({store_and_release, release_next, [&] { acquire_next(), load_data(); }}), "");
  EXPECT_NE(among({store_and_release, say_next, [&] { acquire_next(), load_data(); }}), "");
  // What was released is where it goes, so what is stored after that lies there in the end.
  EXPECT_EQ(among({store_and_release, say_next, [&] { acquire_next(), store_data(); }}), "");
}

// ptx.cuh: that memory may be written again.
TEST_F(Races, RelaxedStoresOrderWhatWasLoaded) {
  const auto hear_and_store = [&] { hear(), store_data(); };
  EXPECT_EQ(among({[&] { load_data(), say(); }, hear_and_store}), "");
  EXPECT_NE(among({[&] { say(), load_data(); }, hear_and_store}), "");
  EXPECT_NE(among({[&] { store_data(), say(); }, hear_and_store}), "");
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
  // Who only arrives goes on, and may tell more before the others come.
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

// Of a warp: who says what it has loaded has loaded it, but what it has stored nobody need see.
TEST_F(Races, VotesOrderWhatWasLoaded) {
  const auto after = [&](const std::function<void()>& vote, bool loads_first) {
    return in_cta([&] {
      if (threadIdx.x == 0) loads_first ? load_data() : store_data();
      vote();
      if (threadIdx.x == 1) loads_first ? store_data() : load_data();
    });
  };
  const auto all_say = [] { __all_sync(kAll, true); };
  EXPECT_EQ(after(all_say, true), "");
  EXPECT_NE(after(all_say, false), "");
  EXPECT_EQ(after([] { __syncwarp(); }, true), "");
  EXPECT_EQ(after([] { __syncwarp(); }, false), "");
  EXPECT_NE(after([] {}, true), "");
}

TEST_F(Races, LaunchesOfAStreamAreInAnOrder) {
  const auto race = [&](bool early, bool waits, size_t stream) {
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
        early);
    return objection_of(machine);
  };
  EXPECT_EQ(race(false, false, 0), "");
  EXPECT_EQ(race(true, true, 0), "");
  EXPECT_NE(race(true, false, 0), "");
  EXPECT_NE(race(false, false, 1), "");
}

// What a launch has stored its successors may tell of.
TEST_F(Races, WhatALaunchHasStoredIsWhereItGoes) {
  const auto race = [&](const std::function<void()>& on_another_stream) {
    Simt machine(1);
    find_races(machine);
    machine.launch(0, {1}, {1}, [&] { store_data(); });
    machine.launch(0, {1}, {1}, [&] { say(); });
    machine.launch(1, {1}, {1}, on_another_stream);
    return objection_of(machine);
  };
  EXPECT_EQ(race([&] { acquire(), load_data(); }), "");
  EXPECT_EQ(race([&] { hear(), store_data(); }), "");
  EXPECT_NE(race([&] { hear(), load_data(); }), "");
}

TEST_F(Races, AtomicsRaceOnlyWithWhatIsNone) {
  EXPECT_EQ(among({[&] { say(); }, [&] { say(); }, [&] { hear(); }}), "");
  EXPECT_NE(among({[&] { say(); }, [&] { store(memory_.flag); }}), "");
  EXPECT_NE(among({[&] { say(); }, [&] { load(memory_.flag); }}), "");
  // The last one that counts comes after all others, if there are fences on both sides.
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

TEST_F(Races, OnlyOfTheSameBytes) {
  auto* const bytes = reinterpret_cast<volatile char*>(memory_.vectors);
  EXPECT_EQ(among({[=] { bytes[2] = 1; }, [=] { bytes[3] = 1; }}), "");
  EXPECT_NE(among({[=] { bytes[3] = 1; }, [=] { bytes[3] = 2; }}), "");
  const auto load_part = [&](unsigned first, unsigned last) {
    return [this, first, last] { ptx::load_around(memory_.vectors, first, last); };
  };
  EXPECT_EQ(among({[=] { bytes[5] = 1; }, load_part(6, 16)}), "");
  EXPECT_NE(among({[=] { bytes[5] = 1; }, load_part(5, 16)}), "");
  EXPECT_NE(among({[&] { memory_.vectors[0] = {1, 2, 3, 4}; }, [=] { bytes[15] = 1; }}), "");
  // However many others there are.
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

TEST_F(Races, AreTold) {
  const auto load_later = [&] {
    for (int turn = 0; turn < 100; ++turn) Simt::pause();
    load_data();
  };
  const std::string said = among({[&] { store_data(); }, load_later});
  for (const char* const part :
       {"a race for the memory around byte 0: thread 0 of CTA 0 on stream 0 (at 0x",
        ") stores, thread 0 of CTA 1 on stream 0 (at 0x", ") loads, and nothing orders the two"}) {
    EXPECT_NE(said.find(part), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace plait::test
