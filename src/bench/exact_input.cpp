// Exact inputs and the serial oracle for them.
#include "bench/exact_input.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

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

// What `rank` gives at element `i` of the message, for reducing collectives.
int contribution(const Call& call, int ranks, int rank, size_t i) {
  const int place = static_cast<int>(i % static_cast<size_t>(ranks));
  const int distance = (rank - place + ranks) % ranks;
  const bool tiny = call.type == DataType::kFloat8E4M3 || call.type == DataType::kFloat8E5M2;
  switch (call.op) {
    case ReduceOp::kSum:
      // Sums of the 8-bit types stay exact only up to 8: at each element four ranks give 1 or 2, the others nothing.
      if (tiny) return distance < 4 ? 1 + static_cast<int>(i / 3 + rank) % 2 : 0;
      return static_cast<int>((i * 31 + static_cast<size_t>(rank) * 17) % static_cast<size_t>(modulus_for(call.type)));
    case ReduceOp::kProduct:
      return distance == 0 ? 2 : distance == 1 ? 3 : 1;
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      return static_cast<int>((i * 7 + static_cast<size_t>(rank) * 5) % 9);
    case ReduceOp::kAverage: {
      const int base = 1 + static_cast<int>(i % 3);
      if (ranks == 1) return base;
      return distance == 0 ? base + 1 : distance == 1 ? base - 1 : base;
    }
  }
  return 0;
}

int reduced(const Call& call, int ranks, size_t i) {
  int result = contribution(call, ranks, 0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const int next = contribution(call, ranks, rank, i);
    switch (call.op) {
      case ReduceOp::kSum:
      case ReduceOp::kAverage:
        result += next;
        break;
      case ReduceOp::kProduct:
        result *= next;
        break;
      case ReduceOp::kMin:
        result = std::min(result, next);
        break;
      case ReduceOp::kMax:
        result = std::max(result, next);
        break;
    }
  }
  return call.op == ReduceOp::kAverage ? result / ranks : result;
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
  const bool own_block =
      output ? call.collective == Collective::kReduceScatter : call.collective == Collective::kAllGather;
  return own_block ? static_cast<size_t>(rank) * call.count + i : i;
}

}  // namespace

size_t input_elements(const Call& call, int ranks, int rank) {
  switch (call.collective) {
    case Collective::kBarrier:
      return 0;
    case Collective::kBroadcast:
      return rank == call.root ? call.count : 0;
    case Collective::kReduceScatter:
      return call.count * static_cast<size_t>(ranks);
    default:
      return call.count;
  }
}

size_t output_elements(const Call& call, int ranks, int rank) {
  switch (call.collective) {
    case Collective::kBarrier:
      return 0;
    case Collective::kReduce:
      return rank == call.root ? call.count : 0;
    case Collective::kAllGather:
      return call.count * static_cast<size_t>(ranks);
    default:
      return call.count;
  }
}

void fill_input(const Call& call, int ranks, int rank, int variant, void* input) {
  const size_t bytes = size_of(call.type);
  const size_t elements = input_elements(call, ranks, rank);
  auto* out = static_cast<std::byte*>(input);
  for (size_t i = 0; i < elements; ++i) {
    const size_t at = message_index(call, rank, i, false);
    const uint64_t code = reduces(call.collective)
                              ? encode(call.type, contribution(call, ranks, rank, at + static_cast<size_t>(variant)))
                              : payload(rank, at, variant);
    std::memcpy(out + i * bytes, &code, bytes);
  }
}

size_t count_wrong(const Call& call, int ranks, int rank, int variant, const void* output) {
  const size_t bytes = size_of(call.type);
  const size_t elements = output_elements(call, ranks, rank);
  const auto* out = static_cast<const std::byte*>(output);
  size_t wrong = 0;
  for (size_t i = 0; i < elements; ++i) {
    const size_t at = message_index(call, rank, i, true);
    const int source = call.collective == Collective::kBroadcast ? call.root
                       : call.count == 0                         ? 0
                                                                 : static_cast<int>(at / call.count);
    const uint64_t code = reduces(call.collective)
                              ? encode(call.type, reduced(call, ranks, at + static_cast<size_t>(variant)))
                              : payload(source, at, variant);
    wrong += std::memcmp(out + i * bytes, &code, bytes) != 0;
  }
  return wrong;
}

}  // namespace plait
