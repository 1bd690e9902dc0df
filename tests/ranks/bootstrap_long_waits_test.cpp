// The log about ranks that are long in coming.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

#include "ranks/rank_processes.hpp"

namespace plait {
namespace {

TEST(Bootstrap, LongWaitsAreLogged) {
  BootstrapOptions options = within(0.9);
  options.notice_seconds = 0.2;
  const auto log_of = [&](const std::function<void(const BootstrapOptions&)>& waits) {
    testing::internal::CaptureStderr();
    EXPECT_NE(outcome_of([&](int) { waits(options); }, 0), "");
    return testing::internal::GetCapturedStderr();
  };
  const std::string end = "; fails after 0.9 s (PLAIT_BOOTSTRAP_TIMEOUT_SEC)\n";
  const auto expect_lines = [&](const std::string& log, const std::string& whom) {
    EXPECT_TRUE(log.starts_with("plait: warn: has waited 0.2 s for " + whom + end +
                                "plait: warn: has waited 0.4 s for " + whom + end))
        << log;
  };
  expect_lines(log_of([](const auto& its) { Bootstrap::lead(RendezvousPoint::create(), 3, its); }),
               "ranks 1 and 2 of 3 to arrive");
  expect_lines(log_of([](const auto& its) { Bootstrap::lead(RendezvousPoint::create(), 64, its); }),
               "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 55 more of 64 to arrive");
  expect_lines(log_of([](const auto& its) { Bootstrap::create(new_job(), 1, 2, its); }), "rank 0 of 2 to arrive");
  const UniqueId id = new_id();
  std::thread idle([&] {
    Bootstrap bootstrap = Bootstrap::create(id, 1, 2, within(20));
    sleep_seconds(2);
  });
  expect_lines(log_of([&](const auto& its) { Bootstrap::create(id, 0, 2, its).barrier(); }),
               "rank 1 of 2 to reach barrier");
  idle.join();
  options.log = Logger(LogLevel::kError);
  EXPECT_EQ(log_of([](const auto& its) { Bootstrap::lead(RendezvousPoint::create(), 3, its); }), "");
}

}  // namespace
}  // namespace plait
