// Copies that several threads share, of memory that is aligned to their words.
#pragma once

namespace plait {

// This thread's words, number `thread` of so many: `kAtOnce` loads are under way together, and then their stores.
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

}  // namespace plait
