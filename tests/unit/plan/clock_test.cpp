// Clocks that share what they know, against clocks that are arrays.
#include "plan/clock.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "support/seed.hpp"

namespace plait {
namespace {

// What a clock says it is.
struct PlainClock {
  int component = 0, rank = 0;
  std::vector<int32_t> times;  // of every component

  PlainClock(size_t components, int own_rank, int own) : component(own), rank(own_rank), times(components) {
    times[static_cast<size_t>(own_rank)] = 1;
  }
  void hear(const PlainClock& other) {
    for (size_t i = 0; i < times.size(); ++i) times[i] = std::max(times[i], other.times[i]);
  }
};

// Queues of 200 ranks tell each other, at random or one after the other; more ranks than a page has components.
TEST(Clock, KnowsWhatItHeard) {
  constexpr int kRanks = 200, kQueues = 2, kSteps = 4000;
  constexpr size_t kComponents = kRanks * (1 + kQueues);
  test::Random random(test::run_seed());
  ClockStore store(kRanks, kRanks * kQueues);
  std::vector<Clock> clocks;
  std::vector<PlainClock> plain;
  for (int queue = 0; queue < kRanks * kQueues; ++queue) {
    clocks.emplace_back(store, queue / kQueues, kRanks + queue);
    plain.emplace_back(kComponents, queue / kQueues, kRanks + queue);
  }
  for (int step = 0; step < kSteps; ++step) {
    const bool at_random = test::one_in(random, 2);
    const size_t last = kRanks * kQueues - 1, next = static_cast<size_t>(step) % last;
    const size_t from = at_random ? test::between(random, 0, last) : next;
    const size_t to = at_random ? test::between(random, 0, last) : next + 1;
    if (from == to) continue;
    const int32_t time = clocks[from].time() + 1;
    clocks[from].set_time(time);
    plain[from].times[kRanks + from] = time;
    clocks[to].hear(clocks[from]);
    plain[to].hear(plain[from]);
    const size_t component = test::between(random, 0, kComponents - 1);
    const int32_t known = plain[to].times[component];
    EXPECT_TRUE(clocks[to].knows(static_cast<int>(component), known));
    const bool is_all_there_is = component < kRanks && known == 1;  // of a rank its call
    EXPECT_EQ(clocks[to].knows(static_cast<int>(component), is_all_there_is ? 1 : known + 1), is_all_there_is);
  }
  int furthest = 0;
  for (size_t i = 0; i < clocks.size(); ++i) {
    const auto& times = plain[i].times;
    const int first = clocks[i].first_unknown(kRanks);
    EXPECT_EQ(first, std::find(times.begin(), times.begin() + kRanks, 0) - times.begin());
    furthest = std::max(furthest, first);
  }
  EXPECT_GT(furthest, kRanks / 2);
  EXPECT_GT(store.held_bytes(), 0u);
  clocks.clear();
  EXPECT_EQ(store.held_bytes(), 0u);
}

// Clocks compare anew what they know of a third one, if one of them has heard more of it since.
TEST(Clock, LearnsWhatTheOtherHeardSince) {
  constexpr int kRanks = 128, kFar = 2 * kRanks;  // queues of the first ranks have a page without the last two queues
  ClockStore store(kRanks, kRanks + 2);
  Clock mine(store, 0, kFar), theirs(store, 1, kFar + 1), third(store, 2, kRanks), fourth(store, 3, kRanks + 1);
  third.set_time(1);
  fourth.set_time(1);
  mine.hear(third);
  mine.hear(fourth);
  theirs.hear(third);
  theirs.set_time(1);
  mine.hear(theirs);
  third.set_time(2);
  theirs.hear(third);
  theirs.set_time(2);
  mine.hear(theirs);
  EXPECT_TRUE(mine.knows(kRanks, 2));
  EXPECT_TRUE(mine.knows(kRanks + 1, 1));
}

// A clock and its copy may hear of different things. Whoever hears both then knows all of it.
TEST(Clock, GoesItsOwnWayOnceCopied) {
  constexpr int kRanks = 128, kFar = 2 * kRanks;  // as above
  ClockStore store(kRanks, kRanks + 2);
  Clock early(store, 0, kRanks), left(store, 1, kRanks + 1), right(store, 2, kRanks + 2);
  for (Clock* clock : {&early, &left, &right}) clock->set_time(1);
  Clock one(store, 3, kFar), all(store, 4, kFar + 1);
  one.hear(early);
  one.set_time(1);
  Clock copy = one;
  one.hear(left);
  copy.hear(right);
  copy.set_time(2);
  all.hear(one);
  all.hear(copy);
  EXPECT_TRUE(all.knows(kRanks + 1, 1));
  EXPECT_TRUE(all.knows(kRanks + 2, 1));
}

// A signal under way keeps what its sender knew then.
TEST(Clock, StaysAsItWasSent) {
  ClockStore store(2, 3);
  Clock sender(store, 0, 2), other(store, 1, 3), receiver(store, 1, 4);
  sender.set_time(1);
  other.set_time(5);
  receiver.hear(sender);
  const Clock signal = receiver;
  receiver.hear(other);
  EXPECT_TRUE(receiver.knows(3, 5));
  EXPECT_TRUE(signal.knows(2, 1));
  EXPECT_FALSE(signal.knows(3, 1));
}

}  // namespace
}  // namespace plait
