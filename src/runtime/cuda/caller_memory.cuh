// The caller's memory, eight bytes at a time: it may have any alignment and any length.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plait {

// The compiler does not see where an address that is a number leads.
__device__ inline std::byte* global_pointer(uint64_t address) {
  auto* const pointer = reinterpret_cast<std::byte*>(address);
  __builtin_assume(__isGlobal(pointer));
  return pointer;
}

// Some elements of a word, one by one; those of the load that do not exist are zero. Not inlined, as they are seldom
// needed. Word: a Pack of 64 bits.
template <class Word>
__device__ __noinline__ uint64_t load_elements(const std::byte* from, uint32_t count) {
  Word word(uint64_t{0});
  const auto* elements = reinterpret_cast<const typename Word::Storage*>(from);
#pragma unroll
  for (int e = 0; e < Word::kCount; ++e) {
    if (e < count) word.elements[e] = elements[e];
  }
  return word.bits;
}

template <class Word>
__device__ __noinline__ void store_elements(std::byte* to, uint32_t count, uint64_t bits) {
  const Word word(bits);
  auto* elements = reinterpret_cast<typename Word::Storage*>(to);
#pragma unroll
  for (int e = 0; e < Word::kCount; ++e) {
    if (e < count) elements[e] = word.elements[e];
  }
}

// A word, of which `count` elements exist. `is_aligned`: it starts at a multiple of eight bytes.
template <class Word>
__device__ uint64_t load_word(const std::byte* from, uint32_t count, bool is_aligned) {
  if (is_aligned && count == Word::kCount) return *reinterpret_cast<const uint64_t*>(from);
  return load_elements<Word>(from, count);
}

template <class Word>
__device__ void store_word(std::byte* to, uint32_t count, bool is_aligned, uint64_t bits) {
  if (is_aligned && count == Word::kCount) {
    *reinterpret_cast<uint64_t*>(to) = bits;
  } else {
    store_elements<Word>(to, count, bits);
  }
}

}  // namespace plait
