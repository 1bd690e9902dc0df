// Pre-multiplied sums on the host: multiplies a rank's input by its scalar, into memory that may be written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/call.hpp"
#include "runtime/premul_scalar.hpp"

namespace plait {

// Rounds a number once to a scalar for calls of this type. Throws kInvalidArgument if the type has no such number: one
// that is not whole, or too large.
Scalar make_scalar(DataType type, double number);
Scalar make_scalar(DataType type, int64_t number);
Scalar make_scalar(DataType type, uint64_t number);

// output[i] = input[i] * scalar, with the bits that a reduce (reduce.hpp) gives. Any alignment is allowed. `output` is
// `input` or does not overlap it. The scalar must not be on a device.
void scale(const void* input, void* output, size_t elements, const Scalar& scalar);

// The products of one rank's calls, one call after the other.
class Products {
 public:
  // Multiplies the rank's input of `bytes` bytes and returns where the products are: in `output` if there is one and it
  // may hold them, else in memory that is kept until release(). Throws kResources if the system has no memory.
  const void* make(const Call& call, int rank, size_t bytes, const Scalar& scalar, const void* input, void* output);
  // Frees memory that is too much to keep for the next call.
  void release();

 private:
  std::byte* memory_of(size_t bytes);

  std::unique_ptr<std::byte[]> memory_;
  size_t capacity_ = 0;
};

}  // namespace plait
