// Combining vectors, compiled for a CPU: several elements at once give the same as one at a time.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

// clang-format off: ahead of all kernels
#include "support/simt.hpp"
// clang-format on
#include "runtime/cuda/device/combine_vectors.cuh"
#include "support/seed.hpp"

namespace plait::test {
namespace {

constexpr int kMostSources = 8, kVectors = 2;

template <class Accumulator>
bool are_alike(Accumulator a, Accumulator b) {
  if constexpr (std::is_floating_point_v<Accumulator>) {
    if (std::isnan(a) && std::isnan(b)) return true;
  }
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

// Random bits lead to sums that wrap, saturate, or are infinite or NaN. Now and then all elements of a word are 0 or
// -0.
uint32_t random_word(Random& random) {
  constexpr std::array<uint32_t, 3> kZeros = {0, 0x80008000, 0x80808080};
  return random() % 4 == 0 ? kZeros[random() % kZeros.size()] : static_cast<uint32_t>(random());
}

template <DataType type, int kSources>
void compare(int sources, ReduceOp op, int divisor, Random& random) {
  using Vector = Pack<type, uint4>;
  using Facts = typename Vector::Facts;
  using Accumulator = typename Vector::Accumulator;
  SCOPED_TRACE(std::to_string(static_cast<int>(type)) + ": " + std::to_string(sources) + " sources, operation " +
               std::to_string(static_cast<int>(op)) + ", divided by " + std::to_string(divisor));
  std::array<std::array<uint4, kVectors>, kMostSources> given;
  for (auto& source : given) {
    for (uint4& vector : source) {
      for (uint32_t* word : {&vector.x, &vector.y, &vector.z, &vector.w}) *word = random_word(random);
    }
  }
  Vector results[kVectors];
  const auto at = [&](int s) { return reinterpret_cast<const std::byte*>(given[static_cast<size_t>(s)].data()); };
  combine_vectors<true, kSources>(op, sources, divisor, at, 0, 1, kVectors, results);
  for (size_t v = 0; v < kVectors; ++v) {
    for (int e = 0; e < Vector::kCount; ++e) {
      Accumulator expected[1] = {Facts::widen(Vector(given[0][v]).elements[e])};
      for (size_t s = 1; s < static_cast<size_t>(sources); ++s) {
        const Accumulator next[1] = {Facts::widen(Vector(given[s][v]).elements[e])};
        combine(op, expected, next);
      }
      if (divisor != 0) expected[0] = static_cast<Accumulator>(expected[0] / static_cast<Accumulator>(divisor));
      const Accumulator rounded = Facts::widen(Facts::narrow(expected[0]));
      ASSERT_TRUE(are_alike(Facts::widen(results[v].elements[e]), rounded)) << "vector " << v << ", element " << e;
    }
  }
}

template <DataType type>
void compare_all(Random& random) {
  for (const ReduceOp op : reductions_of(type)) {
    for (const int divisor : {0, 1, 2, 3, 6, 16}) {
      if (divisor != 0 && !facts_of(op).divides) continue;
      for (int time = 0; time < 10; ++time) {
        compare<type, 2>(2, op, divisor, random);
        compare<type, 4>(4, op, divisor, random);
        compare<type, 8>(8, op, divisor, random);
        for (const int sources : {1, 3, 7}) compare<type, 0>(sources, op, divisor, random);
      }
    }
  }
}

TEST(CombiningOnCpu, ManyElementsAtOnceGiveTheSame) {
  Random random(run_seed());
  compare_all<DataType::kInt8>(random);
  compare_all<DataType::kUint8>(random);
  compare_all<DataType::kInt16>(random);
  compare_all<DataType::kUint16>(random);
  compare_all<DataType::kInt32>(random);
  compare_all<DataType::kUint64>(random);
  compare_all<DataType::kFloat16>(random);
  compare_all<DataType::kBfloat16>(random);
  compare_all<DataType::kFloat8E4M3>(random);
  compare_all<DataType::kFloat8E5M2>(random);
  compare_all<DataType::kFloat32>(random);
  compare_all<DataType::kFloat64>(random);
}

}  // namespace
}  // namespace plait::test
