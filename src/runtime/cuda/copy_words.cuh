// Copies that several threads share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plait {

// Memory that is aligned to words: this thread's, number `thread` of so many: `kAtOnce` loads are under way together,
// and then their stores.
template <int kAtOnce, class Word, class Index>
__device__ void copy_words(Word* out, const Word* in, Index words, Index thread, Index threads) {
  for (Index i = thread; i < words; i += threads * kAtOnce) {
    Word values[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      if (i + u * threads < words) values[u] = in[i + u * threads];
    }
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      if (i + u * threads < words) out[i + u * threads] = values[u];
    }
  }
}

// Bytes of which both ends are at the same distance from a multiple of a word.
template <int kAtOnce, class Word>
__device__ void copy_in_words(std::byte* to, const std::byte* from, uint64_t bytes, uint64_t thread, uint64_t threads) {
  const uint64_t to_boundary = -reinterpret_cast<uintptr_t>(from) % sizeof(Word);
  const uint64_t head = to_boundary < bytes ? to_boundary : bytes;
  const uint64_t words = (bytes - head) / sizeof(Word);
  copy_words<kAtOnce>(reinterpret_cast<Word*>(to + head), reinterpret_cast<const Word*>(from + head), words, thread,
                      threads);
  // Fewer than two words' bytes are left at the ends.
  const uint64_t tail = head + words * sizeof(Word);
  if (thread < head) to[thread] = from[thread];
  if (thread < bytes - tail) to[tail + thread] = from[tail + thread];
}

// Any bytes, in the largest words in which both places allow it.
template <int kAtOnce>
__device__ void copy_bytes(std::byte* to, const std::byte* from, uint64_t bytes, uint64_t thread, uint64_t threads) {
  const uintptr_t apart = reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from);
  if (apart % sizeof(uint4) == 0) {
    copy_in_words<kAtOnce, uint4>(to, from, bytes, thread, threads);
  } else if (apart % sizeof(uint32_t) == 0) {
    copy_in_words<kAtOnce, uint32_t>(to, from, bytes, thread, threads);
  } else if (apart % sizeof(uint16_t) == 0) {
    copy_in_words<kAtOnce, uint16_t>(to, from, bytes, thread, threads);
  } else {
    copy_in_words<kAtOnce, uint8_t>(to, from, bytes, thread, threads);
  }
}

}  // namespace plait
