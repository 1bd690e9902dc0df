// The copies of a reduce: those of a single source, and those of finished blocks that go past the caches.
#pragma once

#include <cstddef>

#include "runtime/host/reduce.hpp"

namespace plait {

// Copies `bytes` bytes to memory that does not overlap; past the caches if `streaming`.
void copy_block(void* destination, const void* source, size_t bytes, bool streaming);

// Makes streaming copies of this thread visible before its later stores.
void finish_streaming();

// A reduce of one source that needs no arithmetic.
void copy_to_all(const ReduceArguments& arguments, size_t element_bytes);

}  // namespace plait
