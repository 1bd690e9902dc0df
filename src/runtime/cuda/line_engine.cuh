// Performs operations with one flag for every 128 bytes: eight threads store a line at once, fifteen words of data and
// the epoch in the last, and eight threads load it at once until the flag is of this epoch.
//
// That is right only where the 128 bytes that threads of a warp store with one instruction arrive together, and those
// that they load are of one moment. NVLink and the memory of one GPU keep that, PCIe does not, and no document promises
// it: NCCL's protocol LL128 rests on the same. See LaunchShape and CudaRank::can_use_lines().
#pragma once

#include "runtime/cuda/caller_memory.cuh"
#include "runtime/cuda/elements.cuh"
#include "runtime/cuda/strand.cuh"

namespace plait {

template <DataType type>
class LineEngine {
 public:
  using Launch = FlaggedLaunch;
  using Word = Pack<type, uint64_t>;
  using Accumulator = typename Word::Accumulator;

  __device__ LineEngine(Strand<FlaggedLaunch>& strand, std::byte**)
      : strand_(strand), place_(threadIdx.x % kThreads), group_(0xffu << (threadIdx.x % 32 / kThreads * kThreads)) {}

  __device__ void begin_slice(uint64_t slice) {
    const FlaggedLaunch& launch = strand_.launch();
    input_ = launch.input + slice * launch.slice_bytes;
    output_ = launch.output + slice * launch.slice_bytes;
    flag_ = strand_.epoch();
  }

  __device__ void fold(const DeviceOperation& operation) {
    const DevicePlace* places = strand_.launch().places + operation.first;
    const uint32_t words = (operation.elements + Word::kCount - 1) / Word::kCount;
    const uint32_t lines = (words + kWords - 1) / kWords;
    for (uint32_t line = threadIdx.x / kThreads; line < lines; line += blockDim.x / kThreads) {
      if (!good_) return;
      fold_line(operation, places, line);
    }
  }

  __device__ void signal(const DeviceOperation&) {}
  __device__ bool wait(const DeviceOperation&) { return true; }

  // False: given up.
  __device__ bool finish_slice() { return __syncthreads_and(good_); }

 private:
  static constexpr int kThreads = kLineBytes / 16;  // of a line
  static constexpr int kWords = kLineData / 8;      // of data in it
  static constexpr int kAtOnce = 4;                 // sources

  // Two neighbouring words of a line; of the last thread the second is the flag.
  struct Pair {
    uint64_t low = 0, high = 0;
  };

  __device__ bool has_flag() const { return place_ == kThreads - 1; }

  __device__ void fold_line(const DeviceOperation& operation, const DevicePlace* places, uint32_t line) {
    const DevicePlace* sources = places + operation.destinations;
    const uint32_t word = line * kWords + 2 * place_;
    const uint32_t low_count = elements_of(operation, word);
    const uint32_t high_count = has_flag() ? 0 : elements_of(operation, word + 1);
    Pair result;
    if (operation.sources == 1 && operation.divisor == 0) {
      Pair pairs[kAtOnce];
      load_batch(sources, 1, line, word, low_count, high_count, pairs);
      result = pairs[0];
    } else {
      Accumulator low[Word::kCount], high[Word::kCount], next[Word::kCount];
      for (int s = 0; s < operation.sources; s += kAtOnce) {
        const int batch = min(kAtOnce, operation.sources - s);
        Pair pairs[kAtOnce];
        load_batch(sources + s, batch, line, word, low_count, high_count, pairs);
#pragma unroll
        for (int b = 0; b < kAtOnce; ++b) {
          if (b >= batch) break;
          if (s + b == 0) {
            Word(pairs[b].low).widen(low);
            Word(pairs[b].high).widen(high);
            continue;
          }
          Word(pairs[b].low).widen(next);
          combine(strand_.launch().op, low, next);
          Word(pairs[b].high).widen(next);
          combine(strand_.launch().op, high, next);
        }
      }
      divide(low, operation.divisor);
      divide(high, operation.divisor);
      Word narrow;
      narrow.narrow(low);
      result.low = narrow.bits;
      narrow.narrow(high);
      result.high = narrow.bits;
    }
    if (!good_) return;
    for (int d = 0; d < operation.destinations; ++d) {
      if (places[d].base == kOutputBase) {
        if (low_count > 0) store_word(output_ + places[d].offset, word, low_count, Word(result.low));
        if (high_count > 0) store_word(output_ + places[d].offset, word + 1, high_count, Word(result.high));
      } else {
        const uint64_t high = has_flag() ? flag_ : result.high;
        asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(stored(places[d], line)), "l"(result.low),
                     "l"(high)
                     : "memory");
      }
    }
  }

  // How many elements of the operation word `word` holds.
  __device__ static uint32_t elements_of(const DeviceOperation& operation, uint32_t word) {
    const uint32_t first = word * Word::kCount;
    return first >= operation.elements ? 0 : min(operation.elements - first, static_cast<uint32_t>(Word::kCount));
  }

  // This thread's pair of up to kAtOnce sources, all under way at once. All threads of the line together.
  __device__ void load_batch(const DevicePlace* sources, int batch, uint32_t line, uint32_t word, uint32_t low_count,
                             uint32_t high_count, Pair (&pairs)[kAtOnce]) {
    unsigned missing = 0;
#pragma unroll
    for (int b = 0; b < kAtOnce; ++b) {
      if (b >= batch) break;
      if (sources[b].base >= kFirstScratchBase) {
        missing |= 1u << b;
        continue;
      }
      const std::byte* buffer = (sources[b].base == kInputBase ? input_ : output_) + sources[b].offset;
      if (low_count > 0) pairs[b].low = load_word<Word>(buffer, word, low_count).bits;
      if (high_count > 0) pairs[b].high = load_word<Word>(buffer, word + 1, high_count).bits;
    }
    Patience patience;
    while (missing != 0) {
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        if ((missing >> b & 1) == 0) continue;
        asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                     : "=l"(pairs[b].low), "=l"(pairs[b].high)
                     : "l"(stored(sources[b], line))
                     : "memory");
      }
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        if ((missing >> b & 1) == 0) continue;
        if (__all_sync(group_, !has_flag() || pairs[b].high == flag_)) missing &= ~(1u << b);
      }
      if (missing == 0) break;
      const bool over = __any_sync(group_, patience.is_over(strand_.self()));
      if (!over) continue;
      if (has_flag()) {
        const int first = __ffs(static_cast<int>(missing)) - 1;
        strand_.give_up(StrandFailure::kTimedOut, -1, -1, 0, first == 0 ? pairs[0].high : 0);
      }
      good_ = false;
      return;
    }
  }

  __device__ std::byte* stored(const DevicePlace& place, uint32_t line) const {
    return strand_.lines(static_cast<int>(place.base - kFirstScratchBase)) + place.offset + line * kLineBytes +
           place_ * 16;
  }

  Strand<FlaggedLaunch>& strand_;
  const uint32_t place_;  // in the line
  const unsigned group_;  // the threads of the line, in their warp
  const std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  uint64_t flag_ = 0;
  bool good_ = true;
};

}  // namespace plait
