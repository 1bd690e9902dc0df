// Seeds for random tests that can be repeated.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

namespace plait::test {

// A fresh seed in every run, or PLAIT_TEST_SEED. It is printed once per program, so that a failure can be repeated.
inline uint64_t run_seed() {
  static const uint64_t seed = [] {
    const char* text = std::getenv("PLAIT_TEST_SEED");
    std::random_device device;
    const uint64_t value = text != nullptr ? std::strtoull(text, nullptr, 0) : (uint64_t{device()} << 32 | device());
    std::printf("PLAIT_TEST_SEED=%llu\n", static_cast<unsigned long long>(value));
    std::fflush(stdout);
    return value;
  }();
  return seed;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// A tenth under a sanitizer, where plans take twelve times longer: the usual build finds wrong plans, and the sanitizer
// needs only some of each kind. For how often a test tries, and for how much it must have met by then.
constexpr int shortened(int usual) { return kSanitized ? (usual + 9) / 10 : usual; }

// How often a random test tries, unless PLAIT_TEST_TIMES says otherwise.
inline int times_to_try(int usual) {
  const char* text = std::getenv("PLAIT_TEST_TIMES");
  return text != nullptr ? std::atoi(text) : shortened(usual);
}

using Random = std::mt19937_64;

// A whole number from `least` to `most`.
inline uint64_t between(Random& random, uint64_t least, uint64_t most) { return least + random() % (most - least + 1); }
inline bool one_in(Random& random, uint64_t n) { return random() % n == 0; }
template <class Container>
auto& any_of(Random& random, Container&& from) {
  return from[random() % from.size()];
}

}  // namespace plait::test
