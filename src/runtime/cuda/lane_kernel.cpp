// Which kernel a call gets.
#include "runtime/cuda/lane_kernel.hpp"

#include "runtime/cuda/by_type.hpp"
#include "runtime/cuda/short_kernel.hpp"

namespace plait {

// Made in lane_kernel_*.cu.
template <DataType type>
const void* lane_kernel_of(Protocol protocol);
template <DataType type>
const void* unaligned_kernel_of();
template <DataType type, bool is_whole>
const void* short_packets_of(int words);
template <DataType type, bool is_whole>
const void* short_lines_of(size_t number);

namespace {

// Short calls combine nothing but sums, which are the same, to the bit, of integers with a sign and without.
constexpr DataType without_sign(DataType type) {
  switch (type) {
    case DataType::kInt8:
      return DataType::kUint8;
    case DataType::kInt16:
      return DataType::kUint16;
    case DataType::kInt32:
      return DataType::kUint32;
    case DataType::kInt64:
      return DataType::kUint64;
    default:
      return type;
  }
}

// What has such elements consists of whole words.
constexpr bool is_word(DataType type) { return type == DataType::kUint64 || type == DataType::kFloat64; }

}  // namespace

const void* lane_kernel(Protocol protocol, DataType type) {
  return by_type(type, [&]<DataType known>() { return lane_kernel_of<known>(protocol); });
}

const void* unaligned_kernel(DataType type) {
  return by_type(type, [&]<DataType known>() { return unaligned_kernel_of<known>(); });
}

const void* short_packets(DataType type, int words_of_thread, bool is_whole) {
  return by_type(type, [&]<DataType known>() {
    constexpr DataType kType = without_sign(known);
    return is_whole ? short_packets_of<kType, true>(words_of_thread)
                    : short_packets_of<kType, is_word(kType)>(words_of_thread);
  });
}

const void* short_lines(DataType type, size_t number, bool is_whole) {
  return by_type(type, [&]<DataType known>() {
    constexpr DataType kType = without_sign(known);
    return is_whole ? short_lines_of<kType, true>(number) : short_lines_of<kType, is_word(kType)>(number);
  });
}

}  // namespace plait
