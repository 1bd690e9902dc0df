// The caller's memory, eight bytes at a time: it may have any alignment and any length.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plait {

// Word: a Pack of 64 bits. Word `index` of the buffer, of which `count` elements exist; the rest is zero.
template <class Word>
__device__ Word load_word(const std::byte* buffer, uint32_t index, uint32_t count) {
  Word word(uint64_t{0});
  if (count == Word::kCount && reinterpret_cast<uintptr_t>(buffer) % sizeof(uint64_t) == 0) {
    word.bits = reinterpret_cast<const uint64_t*>(buffer)[index];
    return word;
  }
  const auto* elements = reinterpret_cast<const typename Word::Storage*>(buffer) + index * size_t{Word::kCount};
#pragma unroll
  for (int e = 0; e < Word::kCount; ++e) {
    if (e < count) word.elements[e] = elements[e];
  }
  return word;
}

template <class Word>
__device__ void store_word(std::byte* buffer, uint32_t index, uint32_t count, const Word& word) {
  if (count == Word::kCount && reinterpret_cast<uintptr_t>(buffer) % sizeof(uint64_t) == 0) {
    reinterpret_cast<uint64_t*>(buffer)[index] = word.bits;
    return;
  }
  auto* elements = reinterpret_cast<typename Word::Storage*>(buffer) + index * size_t{Word::kCount};
#pragma unroll
  for (int e = 0; e < Word::kCount; ++e) {
    if (e < count) elements[e] = word.elements[e];
  }
}

}  // namespace plait
