// Tests what programs still do while they end: cancel threads, and make calls from destructors of thread-local and
// static objects and from functions given to atexit.
#include <plait/plait.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

namespace {

void check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "failed: %s (last error: '%s')\n", what, plaitGetLastError(nullptr));
  _exit(1);  // also where destructors are under way
}

// Two ranks that one thread drives.
struct Pair {
  plaitComm_t comms[2];

  Pair() {
    const int host[2] = {PLAIT_DEVICE_HOST, PLAIT_DEVICE_HOST};
    check(plaitCommInitAll(comms, 2, host) == plaitSuccess, "plaitCommInitAll");
  }

  plaitResult_t add(size_t first, size_t second) {
    int values[2][8] = {{1}, {2}};
    check(plaitGroupStart() == plaitSuccess, "plaitGroupStart");
    plaitAllReduce(values[0], values[0], first, plaitInt, plaitSum, comms[0], nullptr);
    plaitAllReduce(values[1], values[1], second, plaitInt, plaitSum, comms[1], nullptr);
    const plaitResult_t result = plaitGroupEnd();
    check(result != plaitSuccess || (values[0][0] == 3 && values[1][0] == 3), "the sum");
    return result;
  }

  // A call, a part of both ranks, a mistake, and the end.
  void use_up(const char* where) {
    check(add(8, 8) == plaitSuccess, where);
    plaitComm_t part = nullptr, other = nullptr;
    plaitGroupStart();
    plaitCommSplit(comms[0], 0, 0, &part, nullptr);
    plaitCommSplit(comms[1], 0, 0, &other, nullptr);
    check(plaitGroupEnd() == plaitSuccess && part != nullptr, where);
    check(plaitCommDestroy(part) == plaitSuccess && plaitCommDestroy(other) == plaitSuccess, where);
    check(add(5, 6) == plaitInvalidUsage, where);
    check(plaitCommDestroy(comms[0]) == plaitSuccess && plaitCommDestroy(comms[1]) == plaitSuccess, where);
    check(std::strstr(plaitGetLastError(nullptr), "differs between ranks") != nullptr, where);
  }
};

struct UsedAtTheEnd {
  explicit UsedAtTheEnd(const char* its_place) : where(its_place) {}
  ~UsedAtTheEnd() {
    if (pair) pair->use_up(where);
  }
  const char* where;
  std::unique_ptr<Pair> pair;
};

// Made before anything that the library makes, so it ends after that.
UsedAtTheEnd at_the_very_end("a static destructor");
std::unique_ptr<Pair> for_atexit;

void use_in_thread() {
  static thread_local UsedAtTheEnd of_this_thread("a thread-local destructor");
  of_this_thread.pair = std::make_unique<Pair>();
  check(of_this_thread.pair->add(1, 2) == plaitInvalidUsage, "calls that differ");
  of_this_thread.pair = std::make_unique<Pair>();
}

void* wait_alone(void* comm) {
  const plaitResult_t result = plaitBarrier(static_cast<plaitComm_t>(comm), nullptr);
  check(result == plaitRemoteError, "a cancelled thread finishes its call first");
  for (;;) pause();  // where it may be cancelled
}

void test_cancelled_thread() {
  Pair pair;
  pthread_t thread;
  check(pthread_create(&thread, nullptr, wait_alone, pair.comms[0]) == 0, "pthread_create");
  usleep(50'000);
  check(pthread_cancel(thread) == 0, "pthread_cancel");
  usleep(50'000);
  check(plaitCommAbort(pair.comms[1]) == plaitSuccess, "plaitCommAbort");
  void* end = nullptr;
  check(pthread_join(thread, &end) == 0 && end == PTHREAD_CANCELED, "the thread ends where it may");
  check(plaitCommDestroy(pair.comms[0]) == plaitSuccess, "plaitCommDestroy");
}

}  // namespace

int main() {
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  alarm(120);
  test_cancelled_thread();
  std::thread(use_in_thread).join();
  for_atexit = std::make_unique<Pair>();
  at_the_very_end.pair = std::make_unique<Pair>();
  std::atexit([] { for_atexit->use_up("a function given to atexit"); });
  std::puts("endings_test: what comes at the end shows in the exit status");
  return 0;
}
