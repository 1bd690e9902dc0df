// The main() of GPU tests, which are GoogleTest programs. Exit status 77: no GPU, nothing was tested.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "gpu/gpus.hpp"

namespace plait::test {
namespace {

constexpr int kSkipped = 77;
int found = 0;

// In a child process, since a process that has used CUDA must not fork ranks.
int count_gpus() {
  const pid_t child = ::fork();
  if (child == 0) {
    int count = 0;
    ::_exit(cudaGetDeviceCount(&count) == cudaSuccess ? std::min(count, 64) : 0);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

}  // namespace

int gpus() { return found; }

}  // namespace plait::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  ::alarm(PLAIT_MOST_SECONDS);               // it ends, whatever happens
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // and has printed what it has seen by then
  plait::test::found = plait::test::count_gpus();
  if (plait::test::found == 0) {
    std::puts("skipped: no GPU");
    return plait::test::kSkipped;
  }
  std::printf("%d GPUs\n", plait::test::found);
  return RUN_ALL_TESTS();
}
