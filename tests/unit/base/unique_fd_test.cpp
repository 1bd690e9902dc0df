// Descriptors of the library's own are never standard streams, closed or not.
#include "base/unique_fd.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

namespace plait {
namespace {

// Runs `check` in a process without standard streams; gives what it gives, from 0 to 255.
int without_standard_streams(const std::function<int()>& check) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (int number = 0; number <= STDERR_FILENO; ++number) ::close(number);
    ::_exit(check());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int open_null() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }
bool is_open(int number) { return ::fcntl(number, F_GETFD) >= 0; }

TEST(UniqueFd, LeavesTheNumbersOfStandardStreamsFree) {
  EXPECT_EQ(without_standard_streams([] {
              UniqueFd made(open_null()), taken;
              taken.reset(open_null());
              if (made.get() <= STDERR_FILENO || taken.get() <= STDERR_FILENO) return 1;
              if (made.get() == taken.get() || !is_open(made.get()) || !is_open(taken.get())) return 2;
              for (int number = 0; number <= STDERR_FILENO; ++number) {
                if (is_open(number)) return 3;
              }
              return (::fcntl(made.get(), F_GETFD) & FD_CLOEXEC) != 0 ? 0 : 4;
            }),
            0);
}

TEST(UniqueFd, KeepsOtherNumbers) {
  const int number = open_null();
  ASSERT_GT(number, STDERR_FILENO);
  const UniqueFd made(number);
  EXPECT_EQ(made.get(), number);
}

// As where the call failed that should have given one: empty, and errno tells why.
TEST(UniqueFd, IsEmptyWhereNoOtherNumberIsToBeHad) {
  EXPECT_EQ(without_standard_streams([] {
              const rlimit three{3, 3};
              ::setrlimit(RLIMIT_NOFILE, &three);
              const UniqueFd made(open_null());
              if (made || errno != EMFILE) return 1;
              return is_open(0) ? 2 : 0;
            }),
            0);
}

}  // namespace
}  // namespace plait
