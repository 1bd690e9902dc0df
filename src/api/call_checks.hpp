// Checks that every call must pass, whoever performs it. All checks throw kInvalidArgument, which names the rank that
// calls. They are in a header since every call makes them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "base/overlap.hpp"
#include "plan/plan.hpp"
#include "runtime/call.hpp"
#include "runtime/premul_scalar.hpp"

namespace plait {

// Whether a call is in place on a rank that has input and output.
inline bool is_in_place(const Call& call, int rank, const void* input, const void* output) {
  const auto* in = static_cast<const std::byte*>(input);
  const auto* out = static_cast<const std::byte*>(output);
  const size_t before = static_cast<size_t>(rank) * call.count * size_of(call.type);
  if (gathers(call.collective)) return in == out + before;
  return scatters(call.collective) ? out == in + before : in == out;
}

// The same for any rank, with elements.
inline bool has_both_in_place(const Call& call, int rank, const void* input, const void* output) {
  return call.count > 0 && has_input(call, rank) && has_output(call, rank) && is_in_place(call, rank, input, output);
}

// The root, the type and the operation.
inline void check_kind(const Call& call, int rank, int size) {
  if (has_root(call.collective) && (call.root < 0 || call.root >= size)) {
    refuse_call(rank, call, "root ", call.root, " is not one of the ", counted(size, "rank"));
  }
  if (reduces(call.collective) && !has(call.type, call.op)) refuse_call(rank, call, why_not(call.type, call.op));
}

// The count, and that buffers are there, and either apart or exactly in place. `given`: the caller's plan, or null.
inline void check_buffers(const Call& call, int rank, int size, const Plan* given, const void* input,
                          const void* output) {
  const size_t element = size_of(call.type);
  const size_t copies = has_rank_blocks(call.collective) ? static_cast<size_t>(size) : 1;
  if (call.count > SIZE_MAX / 4 / element / copies) refuse_call(rank, call, "the count is larger than any memory");
  if (call.count == 0) return;
  const bool gives = has_input(call, rank), gets = has_output(call, rank);
  if (gives && input == nullptr) refuse_call(rank, call, "input is null");
  if (gets && output == nullptr) refuse_call(rank, call, "output is null");
  if (!gives || !gets) return;
  const auto* in = static_cast<const std::byte*>(input);
  const auto* out = static_cast<const std::byte*>(output);
  const size_t in_bytes = input_elements(call, size, rank) * element;
  const size_t out_bytes = output_elements(call, size, rank) * element;
  const bool in_place = is_in_place(call, rank, input, output);
  if (!in_place && overlap(in, in_bytes, out, out_bytes)) {
    refuse_call(rank, call, "input and output overlap without being in place; in place means ",
                gathers(call.collective)    ? "input = output + rank * count"
                : scatters(call.collective) ? "output = input + rank * count"
                                            : "input = output");
  }
  if (in_place && given != nullptr && !given->in_place) {
    refuse_call(rank, call, "plan ", given->algorithm, " is never in place; give another output");
  }
}

// On GPUs: that buffers begin at an element. A GPU that loads a misaligned one fails for good, with everything else
// that its process does there.
inline void check_elements(const Call& call, int rank, const void* input, const void* output) {
  const size_t element = size_of(call.type);
  if (call.count == 0) return;
  const auto check_one = [&](bool is_used, const char* which, const void* buffer) {
    if (!is_used || reinterpret_cast<uintptr_t>(buffer) % element == 0) return;
    refuse_call(rank, call, which, " begins between two elements, whose size is ", counted(element, "byte"),
                "; on GPUs buffers begin at a multiple of that");
  };
  check_one(has_input(call, rank), "input", input);
  check_one(has_output(call, rank), "output", output);
}

// Checks the scalar of a pre-multiplied sum.
inline void check_scalar(const Call& call, int rank, const Scalar& scalar) {
  if (!reduces(call.collective) || call.op != ReduceOp::kSum) {
    refuse_call(rank, call, "only inputs of a sum are multiplied by a scalar");
  }
  if (scalar.type != call.type) {
    refuse_call(rank, call, "the scalar is ", name(scalar.type), "; it must be of the type of the call");
  }
}

// The same for buffers in host memory.
inline void check_scalar_on_host(const Call& call, int rank, const Scalar& scalar) {
  check_scalar(call, rank, scalar);
  if (scalar.on_device == nullptr) return;
  refuse_call(rank, call, "the scalar is on a GPU and the buffers are in host memory; give its value");
}

}  // namespace plait
