// The machine that runs kernels on a CPU: who meets there, and that those who meet at different places are found.
#include "support/simt.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>

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
  machine::store_line(words, 1, 2);
}
void load_line() {
  alignas(16) const uint64_t words[2] = {1, 2};
  uint64_t low, high;
  machine::load_line(words, low, high);
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
                  machine::meet_at(1, 64);
                  EXPECT_GE(arrived, 32 * time);
                  cta_barrier();
                  continue;
                }
                ++arrived;
                machine::arrive_at(1, 64);
                const bool all = machine::all_at<15>(threadIdx.x != 5 || time == 2, 32);
                EXPECT_EQ(all, time == 2);
                cta_barrier();
              }
            }),
            "");
  EXPECT_EQ(objection([] { machine::meet_at(1, 96); }), "threads wait for ever");
  EXPECT_EQ(objection([] { machine::meet_at(1, threadIdx.x < 32 ? 64 : 32); }),
            "threads of a named barrier count differently");
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
  const auto load = [](const uint64_t* from, uint64_t& low, uint64_t& high) { machine::load_relaxed(from, low, high); };
  const auto load_both = [](const uint64_t* from, uint64_t& low, uint64_t& high) { low = from[0], high = from[1]; };
  const auto load_line = [](const uint64_t* from, uint64_t& low, uint64_t& high) {
    machine::load_line(from, low, high);
  };
  const auto store = [](uint64_t* to, uint64_t time) { machine::store_relaxed(to, time, time); };
  const auto store_both = [](uint64_t* to, uint64_t time) { to[0] = to[1] = time; };
  const auto store_line = [](uint64_t* to, uint64_t time) { machine::store_line(to, time, time); };
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

}  // namespace
}  // namespace plait::test
