// A line of the log that cannot be written is lost, and nothing else happens.
#include "base/log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

namespace plait {
namespace {

constexpr int kLived = 42;

// Prepares a process, writes to the log in it, and gives how it ended: wait(2)'s status.
int status_of_logger(const std::function<void()>& prepare) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int number : {SIGPIPE, SIGXFSZ}) std::signal(number, SIG_DFL);
    prepare();
    Logger(LogLevel::kWarn, 3).warn("nobody can read this");
    ::_exit(kLived);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

void expect_alive(const std::function<void()>& prepare) {
  const int status = status_of_logger(prepare);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kLived)
      << (WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "another status");
}

TEST(Log, IsWrittenInOneLine) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const int status = status_of_logger([&] { ::dup2(ends[1], STDERR_FILENO); });
  EXPECT_EQ(WEXITSTATUS(status), kLived);
  char text[100] = {};
  EXPECT_GT(::read(ends[0], text, sizeof text - 1), 0);
  EXPECT_STREQ(text, "plait: [rank 3] warn: nobody can read this\n");
  for (const int end : ends) ::close(end);
}

TEST(Log, IntoAPipeThatNobodyReads) {
  expect_alive([] {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
  });
}

TEST(Log, IntoASocketWhoseOtherEndIsClosed) {
  expect_alive([] {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
  });
}

TEST(Log, IntoASocketThatIsNotConnected) {
  expect_alive([] { ::dup2(::socket(AF_INET, SOCK_STREAM, 0), STDERR_FILENO); });
}

TEST(Log, IntoAFileThatMayNotGrow) {
  expect_alive([] {
    ::dup2(::open("/tmp", O_TMPFILE | O_RDWR, 0600), STDERR_FILENO);
    const rlimit nothing{0, 0};
    ::setrlimit(RLIMIT_FSIZE, &nothing);
  });
}

TEST(Log, IntoAFullDeviceAndNowhere) {
  expect_alive([] { ::dup2(::open("/dev/full", O_WRONLY), STDERR_FILENO); });
  expect_alive([] { ::close(STDERR_FILENO); });
}

// Neither lost nor raised: the program's own handling of signals is as it was.
TEST(Log, LeavesTheProgramsSignalsAlone) {
  expect_alive([] {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    sigset_t pipe, mask, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    Logger().warn("with nothing pending");
    ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    if (sigismember(&mask, SIGPIPE)) ::_exit(1);
    ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    ::raise(SIGPIPE);
    Logger().warn("with one of the program's own pending");
    sigpending(&pending);
    if (!sigismember(&pending, SIGPIPE)) ::_exit(2);
  });
}

}  // namespace
}  // namespace plait
