// Access to user buffers, eight bytes at a time. They may have any alignment and any length.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plait {

// A pointer to global memory: from the number alone the compiler cannot tell.
__device__ inline std::byte* global_pointer(uint64_t address) {
  auto* const pointer = reinterpret_cast<std::byte*>(address);
  __builtin_assume(__isGlobal(pointer));
  return pointer;
}

// Loads elements `first` to `last` of a word one by one; the others are zero. Word is a Pack of 64 bits.
template <class Word>
__device__ uint64_t load_elements(const std::byte* from, int first, int last) {
  Word word(uint64_t{0});
  const auto* elements = reinterpret_cast<const typename Word::Storage*>(from);
#pragma unroll
  for (int e = 0; e < Word::kCount; ++e) {
    if (first <= e && e < last) word.elements[e] = elements[e];
  }
  return word.bits;
}
template <class Word>
__device__ void store_elements(std::byte* to, int count, uint64_t bits) {
  const Word word(bits);
  auto* elements = reinterpret_cast<typename Word::Storage*>(to);
#pragma unroll
  for (int e = 0; e < Word::kCount; ++e) {
    if (e < count) elements[e] = word.elements[e];
  }
}

// The same for rare paths: not inlined, and with as few stores as the address allows. `bytes`: how many to store, at
// most 8.
template <class Word>
__device__ __noinline__ uint64_t load_some_elements(const std::byte* from, int first, int last) {
  return load_elements<Word>(from, first, last);
}
template <class Word>
__device__ __noinline__ void store_some_elements(std::byte* to, int bytes, uint64_t bits) {
  constexpr size_t kElement = sizeof(typename Word::Storage);
  const auto store = [&](auto piece) {
    constexpr int kBytes = sizeof(piece);
    *reinterpret_cast<decltype(piece)*>(to) = static_cast<decltype(piece)>(bits);
    bits = kBytes < 8 ? bits >> (kBytes % 8 * 8) : 0;
    to += kBytes;
    bytes -= kBytes;
  };
  // Larger stores up to an aligned address, then smaller ones for the rest.
  const auto is_odd = [&](int piece) { return reinterpret_cast<uintptr_t>(to) % (2 * piece) != 0; };
  if (kElement <= 1 && bytes >= 1 && is_odd(1)) store(uint8_t{});
  if (kElement <= 2 && bytes >= 2 && is_odd(2)) store(uint16_t{});
  if (kElement <= 4 && bytes >= 4 && is_odd(4)) store(uint32_t{});
  if (bytes >= 8) store(uint64_t{});
  if (kElement <= 4 && bytes >= 4) store(uint32_t{});
  if (kElement <= 2 && bytes >= 2) store(uint16_t{});
  if (kElement <= 1 && bytes >= 1) store(uint8_t{});
}

// Loads a word with `count` elements. `is_aligned`: it is 8-byte aligned.
template <class Word>
__device__ uint64_t load_word(const std::byte* from, uint32_t count, bool is_aligned) {
  if (is_aligned && count == Word::kCount) return *reinterpret_cast<const uint64_t*>(from);
  return load_some_elements<Word>(from, 0, static_cast<int>(count));
}

template <class Word>
__device__ void store_word(std::byte* to, uint32_t count, bool is_aligned, uint64_t bits) {
  if (is_aligned && count == Word::kCount) {
    *reinterpret_cast<uint64_t*>(to) = bits;
  } else {
    store_some_elements<Word>(to, static_cast<int>(count * sizeof(typename Word::Storage)), bits);
  }
}

}  // namespace plait
