// Calls every function of NCCL with random arguments, and asks the stand-in behind the drop-in whether they arrived.
//
// every_call VERSION: that of the stand-in. Functions that came later must say so.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <vector>

#include "api/nccl/abi_types.h"
// After the types.
#include "api/nccl/abi.h"

namespace {

int failures = 0;
int calls = 0;
int real_version = 0;
std::mt19937_64 random_bits(20261126);
int (*last)(const char*, char*, size_t);
int (*count)(const char*);
void (*set_result)(ncclResult_t);

void check(bool good, const char* function, const char* what) {
  if (good) return;
  ++failures;
  std::fprintf(stderr, "%s: %s (last error: '%s')\n", function, what, ncclGetLastError(nullptr));
}

template <class T>
T random_argument() {
  std::remove_const_t<T> value{};
  for (size_t i = 0; i < sizeof(value); ++i) reinterpret_cast<unsigned char*>(&value)[i] = random_bits() & 0xff;
  if constexpr (std::is_pointer_v<T>) reinterpret_cast<unsigned char*>(&value)[sizeof(value) - 1] = 0xa5;  // no address
  return value;
}

template <class Result>
bool is_expected(const Result& result, ncclResult_t expected) {
  if constexpr (std::is_same_v<Result, ncclResult_t>) return result == expected;
  if constexpr (std::is_same_v<Result, int>) return result == 41;
  if constexpr (std::is_same_v<Result, ncclTeam_t>) return result.nRanks == 7 && result.rank == 8 && result.stride == 9;
  if constexpr (std::is_same_v<Result, const char*>) return std::strcmp(result, "the stand-in's text") == 0;
}

template <class Result, class... Arguments>
void check_missing(const char* function, Result (*call)(Arguments...)) {
  if constexpr (std::is_same_v<Result, ncclResult_t>) {
    check(call(random_argument<Arguments>()...) == ncclInvalidUsage, function, "did not say ncclInvalidUsage");
    const std::string said = ncclGetLastError(nullptr);
    check(said.starts_with(std::string(function) + ":"), function, "did not name itself in the last error");
    check(said.find("NCCL 2.27.1") != said.npos && said.find("came with NCCL 2.") != said.npos, function,
          "did not say which versions");
  } else {
    call(random_argument<Arguments>()...);  // returns; there is nothing that it could say
  }
  ++calls;
}

template <class Result, class... Arguments>
void check_call(const char* function, int since, Result (*call)(Arguments...)) {
  if (since > real_version) return check_missing(function, call);
  for (const ncclResult_t expected : {ncclSuccess, ncclInternalError, ncclInProgress}) {
    set_result(expected);
    const std::tuple<Arguments...> arguments{random_argument<Arguments>()...};
    std::string bytes;
    std::apply([&](const auto&... each) { (bytes.append(reinterpret_cast<const char*>(&each), sizeof(each)), ...); },
               arguments);
    if constexpr (std::is_void_v<Result>) {
      std::apply(call, arguments);
    } else {
      check(is_expected(std::apply(call, arguments), expected), function, "returned something else");
    }
    char arrived[1024];
    const int length = last(function, arrived, sizeof(arrived));
    check(length >= 0 && bytes == std::string(arrived, static_cast<size_t>(length)), function, "arguments changed");
    ++calls;
  }
  set_result(ncclSuccess);
}

// The first calls of a function by several threads at once.
void check_threads() {
  constexpr int kThreads = 8, kCalls = 1000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([] {
      for (int call = 0; call < kCalls; ++call) ncclCommCount(nullptr, nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  check(count("ncclCommCount") == kThreads * kCalls, "ncclCommCount", "calls of threads were lost");
}

}  // namespace

#include "every_call.inc"

int main(int, char** arguments) {
  real_version = std::atoi(arguments[1]);
  void* stand_in = dlopen(std::getenv("STAND_IN"), RTLD_NOW);
  if (stand_in == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  last = reinterpret_cast<int (*)(const char*, char*, size_t)>(dlsym(stand_in, "stand_in_last"));
  count = reinterpret_cast<int (*)(const char*)>(dlsym(stand_in, "stand_in_count"));
  set_result = reinterpret_cast<void (*)(ncclResult_t)>(dlsym(stand_in, "stand_in_return"));
  check_threads();
  check_every_call();
  std::printf("every_call: %d calls, %d failed\n", calls, failures);
  return failures == 0 && calls > 0 ? 0 : 1;
}
