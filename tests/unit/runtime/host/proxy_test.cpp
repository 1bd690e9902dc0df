// A proxy does its work in order, on one thread of its own, up to the first failure.
#include "runtime/host/proxy.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>
#include <stdexcept>
#include <vector>

namespace plait {
namespace {

TEST(Proxy, DoesItsWorkInOrder) {
  std::vector<int> done, all(1000);
  std::iota(all.begin(), all.end(), 0);
  bool elsewhere = false;
  Proxy proxy([](std::exception_ptr) { FAIL(); });
  for (const int i : all) {
    proxy.add([&, i] {
      done.push_back(i);
      elsewhere = elsewhere || !Proxy::is_current();
    });
  }
  proxy.drain();
  EXPECT_EQ(done, all);
  EXPECT_FALSE(elsewhere);
  EXPECT_FALSE(Proxy::is_current());
}

TEST(Proxy, DoesAllBeforeItEnds) {
  int done = 0;
  {
    Proxy proxy([](std::exception_ptr) { FAIL(); });
    for (int i = 0; i < 10; ++i) {
      proxy.add([&] {
        ::usleep(500);
        ++done;
      });
    }
  }
  EXPECT_EQ(done, 10);
}

TEST(Proxy, DoesNothingAfterAFailureAndTellsOfItOnce) {
  int done = 0, failures = 0;
  Proxy proxy([&](std::exception_ptr) { ++failures; });
  proxy.add([&] { ++done; });
  for (int i = 0; i < 3; ++i) proxy.add([] { throw std::runtime_error("no"); });
  proxy.add([&] { ++done; });
  proxy.drain();
  EXPECT_EQ(done, 1);
  EXPECT_EQ(failures, 1);
}

// A child has no such thread, and ends all the same.
TEST(Proxy, AForkedChildEndsWithoutIt) {
  auto proxy = std::make_unique<Proxy>([](std::exception_ptr) {});
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    proxy->drain();
    proxy.reset();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << status;
}

}  // namespace
}  // namespace plait
