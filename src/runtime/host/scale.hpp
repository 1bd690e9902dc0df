// Pre-multiplied sums on the host: a rank's input times its scalar, into memory that may be written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/call.hpp"
#include "runtime/premul_scalar.hpp"

namespace plait {

// A number as a scalar for calls of this type, rounded to it once. Throws kInvalidArgument where the type has no such
// number: what is not whole, or too large.
Scalar make_scalar(DataType type, double number);
Scalar make_scalar(DataType type, int64_t number);
Scalar make_scalar(DataType type, uint64_t number);

// output[i] = input[i] * scalar, with the bits that a reduce (reduce.hpp) gives. Any alignment will do; `output` is
// `input` or lies apart. The scalar must not be on a device.
void scale(const void* input, void* output, size_t elements, const Scalar& scalar);

// The products of one rank's calls, one after the other.
class Products {
 public:
  // Multiplies what the rank gives, of `bytes` bytes; says where the products are: in `output` where that may hold
  // them, else in memory that is kept until release(). Throws kResources where the system has none.
  const void* make(const Call& call, int rank, size_t bytes, const Scalar& scalar, const void* input, void* output);
  // Gives back memory that is too much to keep for the next call.
  void release();

 private:
  std::byte* memory_of(size_t bytes);

  std::unique_ptr<std::byte[]> memory_;
  size_t capacity_ = 0;
};

}  // namespace plait
