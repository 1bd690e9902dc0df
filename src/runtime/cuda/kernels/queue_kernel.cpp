// Which kernel a call gets.
#include "runtime/cuda/kernels/queue_kernel.hpp"

#include "runtime/cuda/kernels/by_type.hpp"
#include "runtime/cuda/kernels/two_shot_kernel.hpp"

namespace plait {

// Made in queue_kernel_*.cu.
template <DataType type>
const void* queue_kernel_of(Protocol protocol);
template <DataType type>
const void* unaligned_kernel_of();
template <DataType type, bool is_aligned>
const void* two_shot_ll_of(int words);
template <DataType type, bool is_aligned>
const void* two_shot_ll128_of(size_t number);

namespace {

// Two-shot calls combine nothing but sums, which are the same, to the bit, of integers with a sign and without.
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

const void* queue_kernel(Protocol protocol, DataType type) {
  return by_type(type, [&]<DataType known>() { return queue_kernel_of<known>(protocol); });
}

const void* unaligned_kernel(DataType type) {
  return by_type(type, [&]<DataType known>() { return unaligned_kernel_of<known>(); });
}

const void* two_shot_ll(DataType type, int words_of_thread, bool is_aligned) {
  return by_type(type, [&]<DataType known>() {
    constexpr DataType kType = without_sign(known);
    return is_aligned ? two_shot_ll_of<kType, true>(words_of_thread)
                      : two_shot_ll_of<kType, is_word(kType)>(words_of_thread);
  });
}

const void* two_shot_ll128(DataType type, size_t number, bool is_aligned) {
  return by_type(type, [&]<DataType known>() {
    constexpr DataType kType = without_sign(known);
    return is_aligned ? two_shot_ll128_of<kType, true>(number) : two_shot_ll128_of<kType, is_word(kType)>(number);
  });
}

}  // namespace plait
