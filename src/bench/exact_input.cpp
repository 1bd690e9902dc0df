// Exact inputs and the serial oracle for them.
#include "bench/exact_input.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/by_combining.hpp"

namespace plait {
namespace {

// The code of a small integer in a binary floating format.
uint64_t encode_float(int value, int exponent_bits, int mantissa_bits) {
  const uint64_t sign = value < 0 ? uint64_t{1} << (exponent_bits + mantissa_bits) : 0;
  const uint64_t magnitude = static_cast<uint64_t>(value < 0 ? -value : value);
  if (magnitude == 0) return 0;
  const int exponent = std::bit_width(magnitude) - 1;
  const uint64_t bias = (uint64_t{1} << (exponent_bits - 1)) - 1;
  const uint64_t fraction = magnitude ^ (uint64_t{1} << exponent);
  const uint64_t mantissa =
      mantissa_bits >= exponent ? fraction << (mantissa_bits - exponent) : fraction >> (exponent - mantissa_bits);
  return sign | (static_cast<uint64_t>(exponent) + bias) << mantissa_bits | mantissa;
}

uint64_t encode(DataType type, int value) {
  switch (type) {
    case DataType::kFloat16:
      return encode_float(value, 5, 10);
    case DataType::kBfloat16:
      return encode_float(value, 8, 7);
    case DataType::kFloat32:
      return encode_float(value, 8, 23);
    case DataType::kFloat64:
      return encode_float(value, 11, 52);
    case DataType::kFloat8E4M3:
      return encode_float(value, 4, 3);
    case DataType::kFloat8E5M2:
      return encode_float(value, 5, 2);
    default:
      return static_cast<uint64_t>(static_cast<int64_t>(value));  // integers wrap to their width
  }
}

// Values below this add up exactly over up to 64 ranks.
int modulus_for(DataType type) { return type == DataType::kBfloat16 ? 4 : 13; }

// Element `i` of the message that `rank` contributes to a reducing collective.
int contribution(const Call& call, int ranks, int rank, size_t i) {
  const int place = static_cast<int>(i % static_cast<size_t>(ranks));
  const int distance = (rank - place + ranks) % ranks;
  const bool tiny = call.type == DataType::kFloat8E4M3 || call.type == DataType::kFloat8E5M2;
  switch (facts_of(call.op).inputs) {
    case ExactInputs::kAddends:
      // Sums of the 8-bit types stay exact only up to 8: at each element four ranks give 1 or 2, the others nothing.
      if (tiny) return distance < 4 ? 1 + static_cast<int>(i / 3 + rank) % 2 : 0;
      return static_cast<int>((i * 31 + static_cast<size_t>(rank) * 17) % static_cast<size_t>(modulus_for(call.type)));
    case ExactInputs::kFactors:
      return distance == 0 ? 2 : distance == 1 ? 3 : 1;
    case ExactInputs::kSmall:
      return static_cast<int>((i * 7 + static_cast<size_t>(rank) * 5) % 9);
    case ExactInputs::kLevel: {
      const int base = 1 + static_cast<int>(i % 3);
      if (ranks == 1) return base;
      return distance == 0 ? base + 1 : distance == 1 ? base - 1 : base;
    }
  }
  return 0;
}

// Ranks that add alternate with ranks that take away, so that sums grow no larger than without factors; those of the
// 8-bit types have no room for a factor of 2.
int scalar_number(DataType type, int rank) {
  const bool tiny = type == DataType::kFloat8E4M3 || type == DataType::kFloat8E5M2;
  return rank % 2 == 1 ? -1 : tiny ? 1 : 2;
}

int reduced(const Call& call, int ranks, size_t i, bool multiplied) {
  const auto given = [&](int rank) {
    return contribution(call, ranks, rank, i) * (multiplied ? scalar_number(call.type, rank) : 1);
  };
  int result = given(0);
  for (int rank = 1; rank < ranks; ++rank) result = combine_numbers(call.op, result, given(rank));
  const int divisor = divisor_of(call.op, ranks);
  return divisor == 0 ? result : result / divisor;
}

// Any bits will do where nothing is computed.
uint64_t payload(int rank, size_t i, int variant) {
  uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ULL + static_cast<uint64_t>(rank) * 0xbf58476d1ce4e5b9ULL +
               static_cast<uint64_t>(variant) * 0x94d049bb133111ebULL;
  x ^= x >> 29;
  return x * 0xd6e8feb86659fd93ULL;
}

// The element of the message that element `i` of a rank's buffer is.
size_t message_index(const Call& call, int rank, size_t i, bool output) {
  const bool own_block = output ? scatters(call.collective) : gathers(call.collective);
  return own_block ? static_cast<size_t>(rank) * call.count + i : i;
}

}  // namespace

namespace {

// Elements after which all values of a reduction repeat: a multiple of the number of ranks and of every modulus above.
size_t period_of(int ranks) { return std::lcm(size_t{4 * 9 * 13}, static_cast<size_t>(ranks)); }

// The codes of `elements` elements from `first` on, side by side, each as wide as `Code`.
template <class Code, class CodeAt>
std::vector<std::byte> pack_as(size_t first, size_t elements, CodeAt& code_at) {
  std::vector<std::byte> packed(elements * sizeof(Code));
  for (size_t i = 0; i < elements; ++i) {
    const auto code = static_cast<Code>(code_at(first + i));
    std::memcpy(packed.data() + i * sizeof(Code), &code, sizeof(Code));
  }
  return packed;
}

// Calls code_at(i) in the order of i.
template <class CodeAt>
std::vector<std::byte> pack(size_t bytes, size_t first, size_t elements, CodeAt code_at) {
  if (bytes == 1) return pack_as<uint8_t>(first, elements, code_at);
  if (bytes == 2) return pack_as<uint16_t>(first, elements, code_at);
  if (bytes == 4) return pack_as<uint32_t>(first, elements, code_at);
  return pack_as<uint64_t>(first, elements, code_at);
}

// The buffer of a rank, and what becomes of its input.
struct Side {
  bool output = false;
  bool multiplied = false;
};

// Elements `first` to `first + elements` of the input, or the output, of `rank`.
std::vector<std::byte> expected(const Call& call, int ranks, int rank, int variant, Side side, size_t first,
                                size_t elements) {
  const bool output = side.output;
  const size_t bytes = size_of(call.type);
  const size_t start = message_index(call, rank, first, output);
  if (reduces(call.collective)) {
    return pack(bytes, start + static_cast<size_t>(variant), elements, [&](size_t i) {
      return encode(call.type, output ? reduced(call, ranks, i, side.multiplied) : contribution(call, ranks, rank, i));
    });
  }
  if (!output || call.collective == Collective::kBroadcast || call.collective == Collective::kScatter) {
    const int source = output ? call.root : rank;
    return pack(bytes, start, elements, [&](size_t i) { return payload(source, i, variant); });
  }
  // The output has a block of every rank. In that rank's message it is block `rank` for all_to_all, else the rank's own
  // block.
  int source = static_cast<int>(start / call.count);
  size_t next_block = (static_cast<size_t>(source) + 1) * call.count;
  return pack(bytes, start, elements, [&](size_t i) {
    if (i == next_block) {
      ++source;
      next_block += call.count;
    }
    if (call.collective != Collective::kAllToAll) return payload(source, i, variant);
    return payload(source, i + (static_cast<size_t>(rank) - static_cast<size_t>(source)) * call.count, variant);
  });
}

// Calls visit(first, elements, what they must be) for all elements, a part at a time. A reduction's values repeat, so
// that one period of them is computed and serves every part: checking a GiB takes little more than reading it.
template <class Visit>
void in_parts(const Call& call, int ranks, int rank, int variant, Side side, size_t elements, Visit visit) {
  const bool repeats = reduces(call.collective);
  const size_t period = period_of(ranks);
  const size_t part = std::min(elements, (std::max<size_t>(1, 16384 / period)) * period);
  std::vector<std::byte> pattern;
  for (size_t first = 0; first < elements; first += part) {
    const size_t now = std::min(part, elements - first);
    if (!repeats || first == 0) pattern = expected(call, ranks, rank, variant, side, first, now);
    visit(first, now, pattern.data());
  }
}

}  // namespace

void fill_input(const Call& call, int ranks, int rank, int variant, void* input) {
  const size_t bytes = size_of(call.type);
  auto* to = static_cast<std::byte*>(input);
  in_parts(call, ranks, rank, variant, {}, input_elements(call, ranks, rank),
           [&](size_t first, size_t elements, const std::byte* values) {
             std::memcpy(to + first * bytes, values, elements * bytes);
           });
}

size_t count_wrong(const Call& call, int ranks, int rank, int variant, const void* output, bool multiplied) {
  const size_t bytes = size_of(call.type);
  const auto* found = static_cast<const std::byte*>(output);
  size_t wrong = 0;
  in_parts(call, ranks, rank, variant, {true, multiplied}, output_elements(call, ranks, rank),
           [&](size_t first, size_t elements, const std::byte* values) {
             const std::byte* part = found + first * bytes;
             if (std::memcmp(part, values, elements * bytes) == 0) return;
             for (size_t i = 0; i < elements; ++i) {
               wrong += std::memcmp(part + i * bytes, values + i * bytes, bytes) != 0;
             }
           });
  return wrong;
}

Scalar exact_scalar(DataType type, int rank) {
  Scalar factor;
  factor.type = type;
  const uint64_t code = encode(type, scalar_number(type, rank));
  std::memcpy(factor.value.data(), &code, sizeof(code));
  return factor;
}

}  // namespace plait
