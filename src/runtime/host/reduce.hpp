// The arithmetic of the host runtime: one `reduce` operation of a plan, on memory that this process can load and store.
// It is compiled once for each instruction set, and the best one of this CPU is picked at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/reductions.hpp"

namespace plait {

// result = s0 op s1 op s2 ..., element by element in this order, written to every destination. The caller ensures that
// counts are at least 1 and that each buffer holds `elements` elements; nothing is checked. A source may be exactly a
// destination (in place); otherwise sources and destinations must not overlap. Any alignment is allowed.
struct ReduceArguments {
  void* const* destinations = nullptr;
  int destination_count = 0;
  const void* const* sources = nullptr;
  int source_count = 0;
  // For each source, whether it holds accumulator elements (base/types.hpp: float32 for narrow floating types) instead
  // of elements of the type; null: none does.
  const uint8_t* source_is_wide = nullptr;
  // Write accumulator elements (a partial result) instead of rounding to the type.
  bool result_is_wide = false;
  size_t elements = 0;
  // p > 0: divide the finished result by p, before it is rounded; 0: do not.
  int divisor = 0;
  // Bit d: write destination d past the caches (a large user buffer that nobody reads soon). Such stores are complete,
  // in the order that a later release store needs, when the reduce returns. Destinations from 32 on are always cached.
  uint32_t streaming_destinations = 0;
};

// The same arguments give the same bits on every CPU, whatever the instruction set, the alignment and the position of
// an element in its buffer:
// - Floating types of 8 and 16 bits are combined in float32 and rounded to nearest even once, at the end. Overflow
//   gives infinity in float16 and bfloat16 and the largest finite value in float8. A value that is infinite in float32
//   stays infinite if the type has infinity; float8_e4m3fn has none. Subnormal numbers are exact, in and out, as long
//   as the thread runs with the default rounding and denormal modes.
// - A result that is NaN is the one that NVIDIA GPUs make, whatever NaN went in: all bits set but the sign (0x7fffffff
//   in float32, 0x7fff in 16 bits, 0x7f in 8 bits).
// - kMin and kMax are IEEE 754-2019 minimum and maximum: NaN wins, and -0 is less than +0.
// - Integers wrap. kAverage is kSum; the divisor makes it an average, truncated toward zero for integers.
// - A single source in the form of the result, without a divisor, is copied bit for bit.
using ReduceFunction = void (*)(const ReduceArguments&);

// Returns the reduce for a type and an operation that it has, for the best instruction set of this CPU. Never null.
ReduceFunction find_reduce(DataType type, ReduceOp op);

// The instruction set that find_reduce uses: "avx512", "avx2", "baseline" (x86-64-v2 on x86) or "neon".
const char* instruction_set();

// For tests and benchmarks: the reduce of one named instruction set, or null if this build or this CPU does not have
// it, or the type does not have the operation.
ReduceFunction find_reduce_variant(std::string_view instruction_set, DataType type, ReduceOp op);

}  // namespace plait
