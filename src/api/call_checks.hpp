// What every call must fulfil, whoever performs it. All of these throw kInvalidArgument, which names the rank that
// calls.
#pragma once

#include "plan/plan.hpp"
#include "runtime/call.hpp"
#include "runtime/premul_scalar.hpp"

namespace plait {

// The root, the type and the operation.
void check_kind(const Call& call, int rank, int size);
// The count, and that buffers are there, and either apart or exactly in place. `given`: the caller's plan, or null.
void check_buffers(const Call& call, int rank, int size, const Plan* given, const void* input, const void* output);
// On GPUs: that buffers begin at an element.
void check_elements(const Call& call, int rank, const void* input, const void* output);
// Of a pre-multiplied sum.
void check_scalar(const Call& call, int rank, const Scalar& scalar);

// For a rank that has input and output.
bool is_in_place(const Call& call, int rank, const void* input, const void* output);
// The same for any rank, with elements.
bool has_both_in_place(const Call& call, int rank, const void* input, const void* output);

}  // namespace plait
