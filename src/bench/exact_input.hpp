// Inputs whose reduction is exact in every type and for every rank count up to 64, so that a result is either right to
// the bit or wrong; for tests and benchmarks.
#pragma once

#include <cstddef>

#include "runtime/call.hpp"
#include "runtime/premul_scalar.hpp"

namespace plait {

// Fills the input of `rank`. `variant` changes the values from one call to the next, so that stale data shows.
void fill_input(const Call& call, int ranks, int rank, int variant, void* input);

// How many elements of the output of `rank` are not what they must be. `multiplied`: every rank had its exact_scalar().
size_t count_wrong(const Call& call, int ranks, int rank, int variant, const void* output, bool multiplied = false);

// The scalar of `rank` for a pre-multiplied sum that stays exact: it is small, and ranks have different ones.
Scalar exact_scalar(DataType type, int rank);

}  // namespace plait
