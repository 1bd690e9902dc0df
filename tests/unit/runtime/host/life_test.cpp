// A descriptor by which others see the end of a process whose number they do not know.
#include "runtime/host/life.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "base/deadline.hpp"
#include "runtime/stream_socket.hpp"
#include "support/system.hpp"

namespace plait {
namespace {

using Maker = Life (*)();

// A process that has given this one its Life.
struct Other {
  pid_t process = 0;
  UniqueFd life;
};

Other start(Maker make) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd ours(ends[0]), theirs(ends[1]);
  Other other;
  std::byte letter{};
  other.process = ::fork();
  if (other.process == 0) {
    const Life life = make();
    std::span<const std::byte> rest(&letter, 1);
    send_some_with_descriptor(theirs.get(), rest, life.descriptor());
    for (;;) ::pause();
  }
  receive_all_with_descriptor(ours.get(), std::span(&letter, 1), other.life, Deadline::after(10));
  return other;
}

bool ends_soon(const UniqueFd& life) {
  const Deadline deadline = Deadline::after(10);
  while (!has_ended(life.get()) && !deadline.passed()) ::usleep(1000);
  return has_ended(life.get());
}

class EveryLife : public testing::TestWithParam<Maker> {};

INSTANTIATE_TEST_SUITE_P(Of, EveryLife, testing::Values(Maker([] { return Life(); }), Maker(&Life::by_pipe)),
                         [](const auto& info) { return info.index == 0 ? "Handle" : "Pipe"; });

TEST_P(EveryLife, TellsTheEndAlsoWhileNobodyHasReapedTheProcess) {
  const Other other = start(GetParam());
  ASSERT_TRUE(other.life);
  EXPECT_FALSE(has_ended(other.life.get()));
  ::kill(other.process, SIGKILL);
  EXPECT_TRUE(ends_soon(other.life));
  ::waitpid(other.process, nullptr, 0);
  EXPECT_TRUE(has_ended(other.life.get()));
}

TEST_P(EveryLife, OfAStoppedProcessGoesOn) {
  const Other other = start(GetParam());
  ::kill(other.process, SIGSTOP);
  ::waitpid(other.process, nullptr, WUNTRACED);
  EXPECT_FALSE(has_ended(other.life.get()));
  ::kill(other.process, SIGKILL);
  EXPECT_TRUE(ends_soon(other.life));
  ::waitpid(other.process, nullptr, 0);
}

TEST_P(EveryLife, OfThisProcessGoesOn) {
  const Life life = GetParam()();
  EXPECT_FALSE(has_ended(life.descriptor()));
}

}  // namespace
}  // namespace plait
