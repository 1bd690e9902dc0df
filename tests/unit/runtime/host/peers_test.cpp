// Processes that are alive, stopped or gone.
#include "runtime/host/peers.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/deadline.hpp"

namespace plait {
namespace {

// Waits for a state that the kernel needs a moment to show.
bool becomes(const Peers& peers, int rank, const std::string& state) {
  const Deadline deadline = Deadline::after(10);
  while (peers.state(rank) != state && !deadline.passed()) ::usleep(1000);
  return peers.state(rank) == state;
}

TEST(Peers, ThisProcessAndOnesThatCannotBeSeenAreAlive) {
  const Peers peers({::getpid(), 0});
  EXPECT_TRUE(peers.alive(0));
  EXPECT_TRUE(peers.alive(1));
  EXPECT_EQ(peers.pid(0), ::getpid());
  EXPECT_EQ(peers.state(0), "running");
  EXPECT_EQ(peers.state(1), "in an unknown state");
  EXPECT_EQ(peers.process(0), std::to_string(::getpid()));
  EXPECT_EQ(peers.process(1), "in another container");
}

TEST(Peers, AChildThroughItsLife) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  const Peers peers({child});
  EXPECT_TRUE(peers.alive(0));
  EXPECT_TRUE(becomes(peers, 0, "sleeping"));
  ::kill(child, SIGSTOP);
  EXPECT_TRUE(becomes(peers, 0, "stopped by a signal"));
  EXPECT_TRUE(peers.alive(0));
  ::kill(child, SIGCONT);
  EXPECT_TRUE(becomes(peers, 0, "sleeping"));
  ::kill(child, SIGKILL);
  EXPECT_TRUE(becomes(peers, 0, "gone"));  // even before anybody has reaped it
  EXPECT_FALSE(peers.alive(0));
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(peers.alive(0));
}

TEST(Peers, AProcessThatWasGoneBefore) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  const Peers peers({child});
  EXPECT_FALSE(peers.alive(0));
  EXPECT_EQ(peers.state(0), "gone");
}

TEST(Peers, AChildThatNobodyHasReaped) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  const Peers peers({child});
  EXPECT_FALSE(peers.alive(0));
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace plait
