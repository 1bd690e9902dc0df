// The reduces of one instruction set. Each reduce_<instruction set>.cpp is compiled with the flags of that set, names a
// namespace of its own in PLAIT_REDUCE_VARIANT and includes this file. Nothing else may include it.
//
// How data moves: a step reads a few registers' worth of elements from every source in turn, combines them as they
// come, and writes the result to every destination. Each byte crosses the caches once, and nothing is kept between
// steps. Other cases go through a block of scratch memory in the first-level cache (reduce_in_blocks).
#pragma once

#include <cstring>
#include <type_traits>

#include "base/by_combining.hpp"
#include "runtime/host/copy.hpp"
#include "runtime/host/narrow_float.hpp"
#include "runtime/host/reduce.hpp"
#include "runtime/host/simd.hpp"

namespace plait {
namespace {

// ---- Elements: how they are stored, and the type in which they are combined.

template <class T>
struct Native {
  using Stored = T;
  using Accumulator = T;
  template <int N>
  static Lanes<T, N> widen(Lanes<T, N> stored) {
    return stored;
  }
  template <int N>
  static Lanes<T, N> narrow(Lanes<T, N> result) {
    if constexpr (std::is_floating_point_v<T>) result = with_one_nan<T, N>(result);
    return result;
  }
};

template <class Format>
struct Narrow : Format {
  using Stored = typename Format::Code;
  using Accumulator = float;
};

template <class Element>
constexpr bool kWidens = !std::is_same_v<typename Element::Stored, typename Element::Accumulator>;

template <class Element>
bool is_wide(const ReduceArguments& a, int source) {
  return kWidens<Element> && a.source_is_wide != nullptr && a.source_is_wide[source] != 0;
}

template <class Element>
bool writes_wide(const ReduceArguments& a) {
  return kWidens<Element> && a.result_is_wide;
}

template <class Element>
size_t element_bytes(bool wide) {
  return wide ? sizeof(typename Element::Accumulator) : sizeof(typename Element::Stored);
}

// Always inlined: a call per register would cost more than the register.
inline bool streams(const ReduceArguments& a, int destination) {
  return destination < 32 && ((a.streaming_destinations >> destination) & 1u) != 0;
}

// ---- Steps: K registers of N lanes, from element `at` on.

template <class Element, int N, int K, class Access>
inline void read(const void* source, size_t at, Access access, Lanes<typename Element::Accumulator, N>* values) {
  using Stored = typename Element::Stored;
  const auto* from = static_cast<const char*>(source) + at * sizeof(Stored);
#pragma GCC unroll 4
  for (int k = 0; k < K; ++k) {
    values[k] = Element::template widen<N>(access.template load<Stored, N>(from + k * N * sizeof(Stored)));
  }
}

template <class Element, int N, int K, class Access>
inline void write(const ReduceArguments& a, size_t at, Access access,
                  const Lanes<typename Element::Accumulator, N>* values) {
  using Stored = typename Element::Stored;
  Lanes<Stored, N> results[K];
#pragma GCC unroll 4
  for (int k = 0; k < K; ++k) results[k] = Element::template narrow<N>(values[k]);
  for (int d = 0; d < a.destination_count; ++d) {
    auto* to = static_cast<char*>(a.destinations[d]) + at * sizeof(Stored);
    if constexpr (Access::kStreams) {
      if (streams(a, d)) {
#pragma GCC unroll 4
        for (int k = 0; k < K; ++k) access.stream(to + k * N * sizeof(Stored), results[k]);
        continue;
      }
    }
#pragma GCC unroll 4
    for (int k = 0; k < K; ++k) access.store(to + k * N * sizeof(Stored), results[k]);
  }
}

template <class Element, int N, int K, class Access>
inline void read_source(const ReduceArguments& a, int source, size_t at, Access access,
                        Lanes<typename Element::Accumulator, N>* values) {
  using Wide = Native<typename Element::Accumulator>;
  if (is_wide<Element>(a, source)) {
    read<Wide, N, K>(a.sources[source], at, access, values);
  } else {
    read<Element, N, K>(a.sources[source], at, access, values);
  }
}

template <class Element, auto combining, int N, int K, class Access>
inline void step(const ReduceArguments& a, size_t at, Access access) {
  using Accumulator = typename Element::Accumulator;
  Lanes<Accumulator, N> total[K];
  read_source<Element, N, K>(a, 0, at, access, total);
  for (int source = 1; source < a.source_count; ++source) {
    Lanes<Accumulator, N> next[K];
    read_source<Element, N, K>(a, source, at, access, next);
#pragma GCC unroll 4
    for (int k = 0; k < K; ++k) total[k] = combining(total[k], next[k]);
  }
  if constexpr (std::is_floating_point_v<Accumulator>) {  // integers are divided in reduce_in_blocks
    if (a.divisor != 0) {
#pragma GCC unroll 4
      for (int k = 0; k < K; ++k) total[k] = total[k] / static_cast<Accumulator>(a.divisor);
    }
  }
  if (writes_wide<Element>(a)) {
    write<Native<Accumulator>, N, K>(a, at, access, total);
  } else {
    write<Element, N, K>(a, at, access, total);
  }
}

// Reduces elements [at, end). Only whole registers go through `access`.
template <class Element, auto combining, class Access>
inline void run(const ReduceArguments& a, size_t at, size_t end, Access access) {
  constexpr int kLanes = kVectorBytes / sizeof(typename Element::Accumulator);
  constexpr int kUnroll = 4;
  for (; end - at >= kLanes * kUnroll; at += kLanes * kUnroll) step<Element, combining, kLanes, kUnroll>(a, at, access);
  for (; end - at >= kLanes; at += kLanes) step<Element, combining, kLanes, 1>(a, at, access);
  if (at < end) step<Element, combining, kLanes, 1>(a, at, Part{end - at});
}

// Returns how many elements come before all streaming destinations are at the start of a cache line, or kNever if they
// never are at the same time.
constexpr size_t kNever = ~size_t{0};

template <class Element>
size_t elements_before_line(const ReduceArguments& a) {
  constexpr size_t kLineBytes = 64;
  const size_t bytes = element_bytes<Element>(writes_wide<Element>(a));
  size_t before = kNever;
  for (int d = 0; d < a.destination_count; ++d) {
    if (!streams(a, d)) continue;
    const size_t gap = -reinterpret_cast<uintptr_t>(a.destinations[d]) % kLineBytes;
    if (gap % bytes != 0 || (before != kNever && before != gap / bytes)) return kNever;
    before = gap / bytes;
  }
  return before;
}

// Reduces everything in one pass, without the division of integers. Streaming destinations must reach the start of a
// line at the same element.
template <class Element, auto combining>
void combine(const ReduceArguments& arguments) {
  const ReduceArguments a = arguments;  // a copy that no store can alias
  if (a.streaming_destinations == 0) return run<Element, combining>(a, 0, a.elements, Whole{});
  const size_t before = elements_before_line<Element>(a);
  const size_t head = before < a.elements ? before : a.elements;
  run<Element, combining>(a, 0, head, Whole{});
  run<Element, combining>(a, head, a.elements, Streamed{});
  finish_streaming();
}

// ---- Cases that one pass does not cover.

constexpr size_t kBlockBytes = 8192;  // of accumulator elements: two blocks fit any first-level cache
constexpr int kSourcesAtOnce = 8;     // more streams than this at a time escape the prefetchers

// Divides in place, toward zero. Floating-point division is much faster than that of integers, and exact here. These
// widths leave enough room: a quotient that is not an integer differs from the next integer by more than its rounding.
template <class T>
[[gnu::noinline]] void divide(char* values, size_t count, int divisor) {
  using Real = std::conditional_t<sizeof(T) <= 2, float, double>;
  for (char* at = values; at != values + count * sizeof(T); at += sizeof(T)) {
    auto value = load_scalar<T>(at);
    if constexpr (sizeof(T) == 8) {
      value /= static_cast<T>(divisor);
    } else {
      value = static_cast<T>(static_cast<Real>(value) / static_cast<Real>(divisor));
    }
    std::memcpy(at, &value, sizeof(value));
  }
}

// Reduces elements [begin, begin + count) into `result`, a few sources at a time. `partial` keeps partial results.
template <class Element, auto combining>
void reduce_block(const ReduceArguments& a, size_t begin, size_t count, void* partial, void* result) {
  const void* sources[kSourcesAtOnce];
  uint8_t wide[kSourcesAtOnce];
  for (int next = 0; next < a.source_count;) {
    int used = 0;
    if (next > 0) {
      sources[0] = partial;
      wide[0] = 1;
      used = 1;
    }
    for (; used < kSourcesAtOnce && next < a.source_count; ++used, ++next) {
      wide[used] = is_wide<Element>(a, next);
      sources[used] = static_cast<const char*>(a.sources[next]) + begin * element_bytes<Element>(wide[used] != 0);
    }
    const bool last = next == a.source_count;
    void* destination = last ? result : partial;
    combine<Element, combining>({.destinations = &destination,
                                 .destination_count = 1,
                                 .sources = sources,
                                 .source_count = used,
                                 .source_is_wide = wide,
                                 .result_is_wide = !last || a.result_is_wide,
                                 .elements = count,
                                 .divisor = last ? a.divisor : 0});
  }
}

// Value is the element as the user sees it. Element may be its unsigned counterpart.
template <class Element, auto combining, class Value>
[[gnu::noinline]] void reduce_in_blocks(const ReduceArguments& a) {
  alignas(64) char partial[kBlockBytes];
  alignas(64) char result[kBlockBytes];
  constexpr size_t kBlockElements = kBlockBytes / sizeof(typename Element::Accumulator);
  const size_t bytes = element_bytes<Element>(writes_wide<Element>(a));
  for (size_t begin = 0; begin < a.elements; begin += kBlockElements) {
    const size_t count = a.elements - begin < kBlockElements ? a.elements - begin : kBlockElements;
    reduce_block<Element, combining>(a, begin, count, partial, result);
    if constexpr (std::is_integral_v<Value>) {
      if (a.divisor != 0) divide<Value>(result, count, a.divisor);
    }
    for (int d = 0; d < a.destination_count; ++d) {
      auto* destination = static_cast<char*>(a.destinations[d]) + begin * bytes;
      copy_block(destination, result, count * bytes, streams(a, d));
    }
  }
  if (a.streaming_destinations != 0) finish_streaming();
}

template <class Element, auto combining, class Value>
void reduce(const ReduceArguments& a) {
  const bool divides_integers = std::is_integral_v<Value> && a.divisor != 0;
  if (a.source_count == 1 && a.divisor == 0 && is_wide<Element>(a, 0) == writes_wide<Element>(a)) {
    copy_to_all(a, element_bytes<Element>(writes_wide<Element>(a)));
  } else if (a.source_count <= kSourcesAtOnce && !divides_integers &&
             (a.streaming_destinations == 0 || elements_before_line<Element>(a) != kNever)) {
    combine<Element, combining>(a);
  } else {
    reduce_in_blocks<Element, combining, Value>(a);
  }
}

// ---- The table.

template <auto combining, class T>
ReduceFunction native() {
  if constexpr (std::is_integral_v<T> && !combining.kOrders) {
    return reduce<Native<std::make_unsigned_t<T>>, combining, T>;
  } else {
    return reduce<Native<T>, combining, T>;
  }
}

template <auto combining>
ReduceFunction find_for_integers(DataType type) {
  switch (type) {
    case DataType::kInt8:
      return native<combining, int8_t>();
    case DataType::kUint8:
      return native<combining, uint8_t>();
    case DataType::kInt16:
      return native<combining, int16_t>();
    case DataType::kUint16:
      return native<combining, uint16_t>();
    case DataType::kInt32:
      return native<combining, int32_t>();
    case DataType::kUint32:
      return native<combining, uint32_t>();
    case DataType::kInt64:
      return native<combining, int64_t>();
    case DataType::kUint64:
      return native<combining, uint64_t>();
    default:
      return nullptr;
  }
}

template <auto combining>
ReduceFunction find_for_floats(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return native<combining, float>();
    case DataType::kFloat64:
      return native<combining, double>();
    case DataType::kFloat16:
      return reduce<Narrow<Float16>, combining, float>;
    case DataType::kBfloat16:
      return reduce<Narrow<Bfloat16>, combining, float>;
    case DataType::kFloat8E4M3:
      return reduce<Narrow<Float8E4M3>, combining, float>;
    case DataType::kFloat8E5M2:
      return reduce<Narrow<Float8E5M2>, combining, float>;
    default:
      return nullptr;
  }
}

template <auto combining, ReducedTypes types>
ReduceFunction find_for(DataType type) {
  const ReduceFunction of_integers = find_for_integers<combining>(type);
  if constexpr (types == ReducedTypes::kAll) {
    if (of_integers == nullptr) return find_for_floats<combining>(type);
  }
  return of_integers;
}

}  // namespace

namespace PLAIT_REDUCE_VARIANT {

ReduceFunction find_reduce(DataType type, ReduceOp op) {
  switch (op) {
#define PLAIT_CASE(value, constant, Combining, ...) \
  case ReduceOp::value:                             \
    return find_for<combining_of<Combining>(ReduceOp::value), facts_of(ReduceOp::value).types>(type);
    PLAIT_REDUCTIONS(PLAIT_CASE)
#undef PLAIT_CASE
  }
  return nullptr;
}

}  // namespace PLAIT_REDUCE_VARIANT
}  // namespace plait
