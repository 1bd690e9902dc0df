#include "runtime/host/reduce.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "unit/runtime/host/reduce_oracle.hpp"

namespace plait {
namespace {

using oracle::Bytes;
using oracle::Problem;

constexpr DataType kNarrowTypes[] = {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8E4M3,
                                     DataType::kFloat8E5M2};

DataType type_at(int i) { return static_cast<DataType>(i); }

// The instruction sets that this build and this CPU have.
std::vector<const char*> variants() {
  std::vector<const char*> names;
  for (const char* name : {"avx512", "avx2", "baseline", "neon"}) {
    if (find_reduce_variant(name, DataType::kFloat32, ReduceOp::kSum) != nullptr) names.push_back(name);
  }
  return names;
}

size_t bytes_of(DataType type, bool wide) { return wide ? accumulator_size_of(type) : size_of(type); }

// How the buffers of a problem lie in memory.
struct Placement {
  std::vector<size_t> source_offsets;  // bytes past a boundary of 64
  std::vector<size_t> destination_offsets;
  std::vector<int> destination_aliases;  // for each destination, the source that it is, or -1
  uint32_t streaming = 0;
};

// A buffer with guard bytes on both sides.
class Buffer {
 public:
  Buffer(size_t bytes, size_t offset) : bytes_(bytes), memory_(bytes + offset + 3 * kGuard, 0xa5) {
    const size_t misaligned = reinterpret_cast<uintptr_t>(memory_.data()) % 64;
    begin_ = (64 - misaligned) % 64 + kGuard + offset;
  }
  unsigned char* data() { return memory_.data() + begin_; }
  Bytes contents() const { return Bytes(memory_.begin() + begin_, memory_.begin() + begin_ + bytes_); }
  bool guards_are_intact() const {
    for (size_t i = 0; i < memory_.size(); ++i) {
      if ((i < begin_ || i >= begin_ + bytes_) && memory_[i] != 0xa5) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 64;
  size_t bytes_;
  size_t begin_;
  std::vector<unsigned char> memory_;
};

// Runs a reduce on copies of the sources and returns all destinations. Checks that nothing else was written.
std::vector<Bytes> run(ReduceFunction reduce, const Problem& problem, const Placement& placement) {
  std::vector<Buffer> sources, destinations;
  std::vector<const void*> source_pointers;
  std::vector<void*> destination_pointers;
  for (size_t s = 0; s < problem.sources.size(); ++s) {
    sources.emplace_back(problem.sources[s].size(), placement.source_offsets[s]);
    if (!problem.sources[s].empty()) {
      std::memcpy(sources[s].data(), problem.sources[s].data(), problem.sources[s].size());
    }
  }
  for (Buffer& source : sources) source_pointers.push_back(source.data());
  const size_t bytes = problem.elements * bytes_of(problem.type, problem.result_is_wide);
  for (const size_t offset : placement.destination_offsets) destinations.emplace_back(bytes, offset);
  for (size_t d = 0; d < destinations.size(); ++d) {
    const int alias = placement.destination_aliases[d];
    destination_pointers.push_back(alias < 0 ? destinations[d].data() : sources[alias].data());
  }

  reduce({.destinations = destination_pointers.data(),
          .destination_count = static_cast<int>(destination_pointers.size()),
          .sources = source_pointers.data(),
          .source_count = static_cast<int>(source_pointers.size()),
          .source_is_wide = problem.source_is_wide.data(),
          .result_is_wide = problem.result_is_wide,
          .elements = problem.elements,
          .divisor = problem.divisor,
          .streaming_destinations = placement.streaming});

  std::vector<Bytes> results;
  for (size_t d = 0; d < destinations.size(); ++d) {
    const int alias = placement.destination_aliases[d];
    results.push_back(alias < 0 ? destinations[d].contents() : sources[alias].contents());
    EXPECT_TRUE(destinations[d].guards_are_intact());
  }
  for (size_t s = 0; s < sources.size(); ++s) {
    EXPECT_TRUE(sources[s].guards_are_intact());
    bool is_destination = false;
    for (const int alias : placement.destination_aliases) is_destination |= alias == static_cast<int>(s);
    if (!is_destination) {
      EXPECT_EQ(sources[s].contents(), problem.sources[s]);
    }
  }
  return results;
}

// Runs a reduce of one variant with one aligned destination.
Bytes run_simply(const char* variant, const Problem& problem) {
  Placement placement;
  placement.source_offsets.assign(problem.sources.size(), 0);
  placement.destination_offsets = {0};
  placement.destination_aliases = {-1};
  return run(find_reduce_variant(variant, problem.type, problem.op), problem, placement)[0];
}

void expect_equal(const Bytes& seen, const Bytes& expected, size_t element_bytes, const std::string& what) {
  ASSERT_EQ(seen.size(), expected.size()) << what;
  for (size_t i = 0; i < seen.size(); ++i) {
    ASSERT_EQ(seen[i], expected[i]) << what << ": byte " << i % element_bytes << " of element " << i / element_bytes;
  }
}

// Random problems: elements that are often ordinary numbers, often any bits at all, sometimes special.
class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}

  size_t below(size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(engine_); }
  bool chance(int percent) { return static_cast<int>(below(100)) < percent; }

  void append_element(Bytes& bytes, DataType type, bool wide) {
    const uint64_t bits = engine_();
    if (type == DataType::kFloat64) {
      oracle::append(bytes, ordinary_ ? number() : any<double, uint64_t>(bits));
    } else if (type == DataType::kFloat32 || (wide && accumulates_in_float32(type))) {
      const auto value = static_cast<float>(number());
      oracle::append(bytes, ordinary_ ? value : any<float, uint32_t>(static_cast<uint32_t>(bits)));
    } else {
      for (size_t i = 0; i < size_of(type); ++i) oracle::append(bytes, static_cast<uint8_t>(bits >> (8 * i)));
    }
  }

  Bytes elements(DataType type, bool wide, size_t count) {
    Bytes bytes;
    bytes.reserve(count * bytes_of(type, wide));
    for (size_t i = 0; i < count; ++i) {
      ordinary_ = chance(70);
      append_element(bytes, type, wide);
    }
    return bytes;
  }

  Problem problem(DataType type, ReduceOp op, size_t sources, size_t count) {
    Problem problem{.type = type, .op = op, .elements = count};
    const bool mixed = chance(40);
    for (size_t s = 0; s < sources; ++s) {
      problem.source_is_wide.push_back(mixed && chance(50) ? 1 : 0);
      problem.sources.push_back(elements(type, problem.source_is_wide[s] != 0, count));
    }
    problem.result_is_wide = mixed && chance(50);
    constexpr int kDivisors[] = {1, 2, 3, 7, 8, 255, 256, 1000, 65537, std::numeric_limits<int>::max()};
    if (facts_of(op).divides || chance(10)) problem.divisor = kDivisors[below(std::size(kDivisors))];
    return problem;
  }

  Placement placement(const Problem& problem) {
    Placement placement;
    const bool aligned = chance(30);
    for (size_t s = 0; s < problem.sources.size(); ++s) placement.source_offsets.push_back(aligned ? 0 : below(64));
    const size_t destinations = 1 + (chance(40) ? below(4) : 0);
    std::vector<bool> taken(problem.sources.size(), false);
    for (size_t d = 0; d < destinations; ++d) {
      placement.destination_offsets.push_back(aligned ? 0 : below(64));
      const size_t source = below(problem.sources.size());
      const bool same_size =
          bytes_of(problem.type, problem.source_is_wide[source] != 0) == bytes_of(problem.type, problem.result_is_wide);
      const bool alias = chance(30) && same_size && !taken[source];
      if (alias) taken[source] = true;
      placement.destination_aliases.push_back(alias ? static_cast<int>(source) : -1);
    }
    if (chance(25)) placement.streaming = static_cast<uint32_t>(engine_());
    return placement;
  }

 private:
  double number() { return std::uniform_real_distribution<double>(-4.0, 4.0)(engine_); }
  template <class T, class BitsOfT>
  T any(BitsOfT bits) {
    constexpr T kSpecial[] = {T{0},
                              -T{0},
                              std::numeric_limits<T>::infinity(),
                              -std::numeric_limits<T>::infinity(),
                              std::numeric_limits<T>::quiet_NaN(),
                              std::numeric_limits<T>::denorm_min(),
                              std::numeric_limits<T>::max(),
                              std::numeric_limits<T>::min()};
    if (chance(30)) return kSpecial[below(std::size(kSpecial))];
    T value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }

  std::mt19937_64 engine_;
  bool ordinary_ = true;
};

std::string describe(const char* variant, const Problem& problem) {
  return std::string(variant) + " " + name(problem.type) + " " + name(problem.op) + " of " +
         std::to_string(problem.sources.size()) + " sources, " + std::to_string(problem.elements) +
         " elements, divisor " + std::to_string(problem.divisor) + (problem.result_is_wide ? ", wide" : "");
}

// Compares every instruction set with the oracle, and so with each other.
void check(Random& random, const Problem& problem) {
  const Bytes expected = oracle::reduce(problem);
  for (const char* variant : variants()) {
    const ReduceFunction reduce = find_reduce_variant(variant, problem.type, problem.op);
    for (const Bytes& result : run(reduce, problem, random.placement(problem))) {
      expect_equal(result, expected, bytes_of(problem.type, problem.result_is_wide), describe(variant, problem));
    }
  }
}

// ---- Conversions.

// All codes of a narrow type, as elements.
Bytes all_codes(DataType type) {
  Bytes bytes;
  const size_t size = size_of(type);
  for (uint32_t code = 0; code < 1u << (8 * size); ++code) {
    for (size_t i = 0; i < size; ++i) bytes.push_back(static_cast<unsigned char>(code >> (8 * i)));
  }
  return bytes;
}

TEST(NarrowFloat, EveryCodeWidensAndNarrowsBack) {
  for (const DataType type : kNarrowTypes) {
    const oracle::Format format(type);
    const Bytes codes = all_codes(type);
    const size_t count = codes.size() / size_of(type);
    Problem widening{.type = type, .op = ReduceOp::kSum, .elements = count, .sources = {codes}, .source_is_wide = {0}};
    widening.result_is_wide = true;
    for (const char* variant : variants()) {
      const Bytes wide = run_simply(variant, widening);
      expect_equal(wide, oracle::reduce(widening), sizeof(float), describe(variant, widening));
      Problem narrowing{
          .type = type, .op = ReduceOp::kSum, .elements = count, .sources = {wide}, .source_is_wide = {1}};
      const Bytes back = run_simply(variant, narrowing);
      for (uint32_t code = 0; code < count; ++code) {
        const uint32_t seen = format.bits == 16 ? oracle::element<uint16_t>(back, code) : back[code];
        const float value = format.decode(code);
        ASSERT_EQ(seen, std::isnan(value) ? format.nan() : code) << describe(variant, narrowing);
      }
    }
  }
}

// The neighbourhood of every code and of every point half-way to the next, then random bits.
Bytes numbers_near_codes(const oracle::Format& format) {
  std::vector<float> numbers;
  const float infinity = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i + 1 < format.values.size(); ++i) {
    const double half_way = (format.values[i] + format.values[i + 1]) / 2;
    for (const double value : {format.values[i], half_way}) {
      const auto number = static_cast<float>(value);
      for (const float x : {number, std::nextafter(number, infinity), std::nextafter(number, -infinity)}) {
        numbers.push_back(x);
        numbers.push_back(-x);
      }
    }
  }
  const float limit = std::numeric_limits<float>::max();
  const float least = std::numeric_limits<float>::denorm_min();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float x : {infinity, limit, limit / 2, 1e30f, 65536.0f, 131072.0f, 1e6f, least, 3 * least, nan}) {
    numbers.push_back(x);
    numbers.push_back(-x);
  }
  Bytes bytes;
  for (const float x : numbers) oracle::append(bytes, x);
  std::mt19937 engine(1);
  for (int i = 0; i < 200000; ++i) oracle::append(bytes, static_cast<uint32_t>(engine()));
  for (uint32_t exponent = 0; exponent < 256; ++exponent) {  // each with and without all lower bits
    for (const uint32_t mantissa : {0u, 1u, 0x7fffffu, 0x400000u, 0x400001u}) {
      oracle::append(bytes, exponent << 23 | mantissa);
      oracle::append(bytes, 1u << 31 | exponent << 23 | mantissa);
    }
  }
  return bytes;
}

TEST(NarrowFloat, RoundsToNearestEven) {
  for (const DataType type : kNarrowTypes) {
    const Bytes numbers = numbers_near_codes(oracle::Format(type));
    const Problem problem{.type = type,
                          .op = ReduceOp::kSum,
                          .elements = numbers.size() / sizeof(float),
                          .sources = {numbers},
                          .source_is_wide = {1}};
    const Bytes expected = oracle::reduce(problem);
    for (const char* variant : variants()) {
      expect_equal(run_simply(variant, problem), expected, size_of(type), describe(variant, problem));
    }
  }
}

TEST(NarrowFloat, KnownCodes) {
  struct Known {
    DataType type;
    float number;
    uint32_t code;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  const Known known[] = {
      {DataType::kFloat16, 65519.0f, 0x7bff},      {DataType::kFloat16, 65520.0f, 0x7c00},
      {DataType::kFloat16, -infinity, 0xfc00},     {DataType::kBfloat16, 3.3961776e38f, 0x7f80},
      {DataType::kBfloat16, 1.0f, 0x3f80},         {DataType::kFloat8E4M3, 448.0f, 0x7e},
      {DataType::kFloat8E4M3, infinity, 0x7e},     {DataType::kFloat8E4M3, -1e9f, 0xfe},
      {DataType::kFloat8E4M3, 0.001953125f, 0x01}, {DataType::kFloat8E4M3, -0.0001f, 0x80},
      {DataType::kFloat8E5M2, 57344.0f, 0x7b},     {DataType::kFloat8E5M2, infinity, 0x7c},
      {DataType::kFloat8E5M2, 61440.0f, 0x7b},     {DataType::kFloat8E5M2, 1.52587890625e-05f, 0x01},
      {DataType::kFloat16, NAN, 0x7fff},           {DataType::kBfloat16, NAN, 0x7fff},
      {DataType::kFloat8E4M3, NAN, 0x7f},          {DataType::kFloat8E5M2, -NAN, 0x7f},
  };
  for (const auto& [type, number, code] : known) {
    Problem problem{.type = type, .op = ReduceOp::kSum, .elements = 1, .sources = {{}}, .source_is_wide = {1}};
    oracle::append(problem.sources[0], number);
    Bytes expected;
    for (size_t i = 0; i < size_of(type); ++i) expected.push_back(static_cast<unsigned char>(code >> (8 * i)));
    for (const char* variant : variants()) {
      EXPECT_EQ(run_simply(variant, problem), expected) << variant << " " << name(type) << " " << number;
    }
  }
}

// All codes of one byte, each next to all others.
Problem every_pair(DataType type, ReduceOp op) {
  Problem problem{.type = type,
                  .op = op,
                  .elements = size_t{1} << 16,
                  .sources = {{}, {}},
                  .source_is_wide = {0, 0},
                  .divisor = divisor_of(op, 2)};
  for (uint32_t both = 0; both < problem.elements; ++both) {
    problem.sources[0].push_back(static_cast<unsigned char>(both & 0xff));
    problem.sources[1].push_back(static_cast<unsigned char>(both >> 8));
  }
  return problem;
}

TEST(NarrowFloat, EveryPairOfBytes) {
  for (const DataType type : {DataType::kFloat8E4M3, DataType::kFloat8E5M2}) {
    for (const ReduceOp op : reductions_of(type)) {
      const Problem problem = every_pair(type, op);
      for (const char* variant : variants()) {
        expect_equal(run_simply(variant, problem), oracle::reduce(problem), 1, describe(variant, problem));
      }
    }
  }
}

// The type is float8_e5m2, which has infinity.
TEST(NarrowFloat, InfinityStaysInfinity) {
  constexpr uint32_t kInfinity = 0x7c, kMinus = 0x80, kZero = 0x00, kNan = 0x7f;
  for (const char* variant : variants()) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProduct}) {
      const Bytes results = run_simply(variant, every_pair(DataType::kFloat8E5M2, op));
      for (const uint32_t sign : {0u, kMinus}) {
        const uint32_t infinity = kInfinity | sign;
        const auto of = [&](uint32_t other) { return uint32_t{results[other << 8 | infinity]}; };
        for (uint32_t code = 0; code < 256; ++code) {
          if ((code & 0x7f) >= kInfinity) continue;  // not a finite number
          const bool wins =
              op != ReduceOp::kMax && op != ReduceOp::kMin ? true : (op == ReduceOp::kMax) == (infinity == kInfinity);
          const uint32_t expected = op != ReduceOp::kProduct ? (wins ? infinity : code)
                                    : (code & 0x7f) == kZero ? kNan
                                                             : infinity ^ (code & kMinus);
          ASSERT_EQ(of(code), expected) << variant << ' ' << name(op) << " of infinity and code " << code;
        }
        EXPECT_EQ(of(infinity), op == ReduceOp::kProduct ? kInfinity : infinity) << variant << ' ' << name(op);
      }
    }
    const Bytes sums = run_simply(variant, every_pair(DataType::kFloat8E5M2, ReduceOp::kSum));
    EXPECT_EQ(sums[0x7b << 8 | 0x7b], 0x7b) << "what is finite saturates";
    EXPECT_EQ(sums[(kInfinity | kMinus) << 8 | kInfinity], kNan);
  }
}

// ---- Reduces.

class ReduceOfType : public testing::TestWithParam<int> {};

TEST_P(ReduceOfType, SmallCountsAndAllSourceCounts) {
  Random random(static_cast<uint32_t>(GetParam()));
  for (const ReduceOp op : reductions_of(type_at(GetParam()))) {
    for (const size_t sources : {1, 2, 3, 4, 5, 6, 7, 8, 9, 64}) {
      for (size_t count = 0; count <= 70; ++count) {
        check(random, random.problem(type_at(GetParam()), op, sources, count));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ReduceOfType, LargeCounts) {
  Random random(1000u + static_cast<uint32_t>(GetParam()));
  for (const ReduceOp op : reductions_of(type_at(GetParam()))) {
    for (int i = 0; i < 8; ++i) {
      const size_t sources = 1 + (i % 2 == 0 ? random.below(4) : random.below(25));
      check(random, random.problem(type_at(GetParam()), op, sources, 70 + random.below(20000)));
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, ReduceOfType, testing::Range(0, kDataTypeCount),
                         [](const auto& info) { return std::string(name(type_at(info.param))); });

// The same element gives the same bits wherever it is: in a register, in the rest, in a block.
TEST(Reduce, PositionDoesNotMatter) {
  for (int type = 0; type < kDataTypeCount; ++type) {
    Random random(7);
    Problem problem = random.problem(type_at(type), ReduceOp::kSum, 3, 1);
    problem.source_is_wide = {0, 0, 0};
    problem.result_is_wide = false;
    for (Bytes& source : problem.sources) source = random.elements(type_at(type), false, 1);
    const Bytes one = oracle::reduce(problem);
    const size_t count = 9001;
    for (Bytes& source : problem.sources) {
      const Bytes element = source;
      for (size_t i = 1; i < count; ++i) source.insert(source.end(), element.begin(), element.end());
    }
    problem.elements = count;
    for (const char* variant : variants()) {
      const Bytes result = run_simply(variant, problem);
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(Bytes(result.begin() + i * one.size(), result.begin() + (i + 1) * one.size()), one)
            << describe(variant, problem);
      }
    }
  }
}

TEST(Reduce, OneSourceIsCopiedWithAllItsBits) {
  Problem problem{.type = DataType::kFloat32, .op = ReduceOp::kMax, .elements = 2, .sources = {{}}};
  problem.source_is_wide = {0};
  oracle::append(problem.sources[0], uint32_t{0x7f800001});  // a signaling NaN
  oracle::append(problem.sources[0], uint32_t{0xffc12345});
  for (const char* variant : variants()) EXPECT_EQ(run_simply(variant, problem), problem.sources[0]);
}

TEST(Reduce, SourcesAreCombinedInTheListedOrder) {
  Problem problem{.type = DataType::kFloat32, .op = ReduceOp::kSum, .elements = 1, .sources = {{}, {}, {}}};
  problem.source_is_wide = {0, 0, 0};
  const float numbers[] = {1e8f, -1e8f, 1.0f};
  for (int s = 0; s < 3; ++s) oracle::append(problem.sources[s], numbers[s]);
  for (const char* variant : variants()) EXPECT_EQ(oracle::element<float>(run_simply(variant, problem), 0), 1.0f);
  std::swap(problem.sources[1], problem.sources[2]);
  for (const char* variant : variants()) EXPECT_EQ(oracle::element<float>(run_simply(variant, problem), 0), 0.0f);
}

TEST(Reduce, NullFlagsMeanThatNoSourceIsWide) {
  const uint16_t a = 0x3c00, b = 0x4000;  // 1 and 2 in float16
  uint16_t sum = 0;
  const void* sources[] = {&a, &b};
  void* destination = &sum;
  find_reduce(DataType::kFloat16, ReduceOp::kSum)(
      {.destinations = &destination, .destination_count = 1, .sources = sources, .source_count = 2, .elements = 1});
  EXPECT_EQ(sum, 0x4200);
}

TEST(Reduce, ManyDestinationsBeyondTheStreamingBits) {
  std::vector<float> results(40, 0.0f);
  std::vector<void*> destinations;
  for (float& result : results) destinations.push_back(&result);
  const float a = 1.0f, b = 2.0f;
  const void* sources[] = {&a, &b};
  find_reduce(DataType::kFloat32, ReduceOp::kSum)({.destinations = destinations.data(),
                                                   .destination_count = 40,
                                                   .sources = sources,
                                                   .source_count = 2,
                                                   .elements = 1,
                                                   .streaming_destinations = ~0u});
  for (const float result : results) EXPECT_EQ(result, 3.0f);
}

TEST(FindReduce, HasEveryTypeAndOperation) {
  for (int type = 0; type < kDataTypeCount; ++type) {
    for (int number = 0; number < kReduceOpCount; ++number) {
      const auto op = static_cast<ReduceOp>(number);
      EXPECT_EQ(find_reduce(type_at(type), op), find_reduce_variant(instruction_set(), type_at(type), op));
      EXPECT_EQ(find_reduce(type_at(type), op) != nullptr, has(type_at(type), op)) << name(op);
    }
  }
}

TEST(FindReduce, DoesNotKnowOtherNames) {
  EXPECT_EQ(find_reduce_variant("mmx", DataType::kFloat32, ReduceOp::kSum), nullptr);
  EXPECT_EQ(find_reduce_variant("", DataType::kFloat32, ReduceOp::kSum), nullptr);
  EXPECT_EQ(variants().front(), std::string(instruction_set()));
}

}  // namespace
}  // namespace plait
