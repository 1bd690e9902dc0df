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
    if (operation.is_done_before) return;
    const DevicePlace* places = strand_.launch().places + operation.first;
    const uint32_t words = (operation.elements + Word::kCount - 1) / Word::kCount;
    const uint32_t lines = (words + kWords - 1) / kWords;
    for (uint32_t line = threadIdx.x / kThreads; line < lines; line += blockDim.x / kThreads) {
      if (!good_) return;
      if (operation.together > 1) {
        copy_line(operation, places, line);
      } else {
        fold_line(operation, places, line);
      }
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

  struct Share {
    uint32_t word, low_count, high_count;
  };

  __device__ bool has_flag() const { return place_ == kThreads - 1; }

  // Line `line` of several copies, whose places follow each other: destination, source, destination, …
  __device__ void copy_line(const DeviceOperation& operation, const DevicePlace* places, uint32_t line) {
    const Share share = share_of(operation, line);
    for (int c = 0; c < operation.together; c += kAtOnce) {
      const int batch = min(kAtOnce, operation.together - c);
      Pair pairs[kAtOnce];
      load_batch(places + 2 * c + 1, 2, batch, line, share, pairs);
      if (!good_) return;
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        if (b < batch) store(places[2 * (c + b)], line, share, pairs[b]);
      }
    }
  }

  __device__ void fold_line(const DeviceOperation& operation, const DevicePlace* places, uint32_t line) {
    const DevicePlace* sources = places + operation.destinations;
    const Share share = share_of(operation, line);
    Pair result;
    if (operation.sources == 1 && operation.divisor == 0) {
      Pair pairs[kAtOnce];
      load_batch(sources, 1, 1, line, share, pairs);
      result = pairs[0];
    } else {
      Accumulator low[Word::kCount], high[Word::kCount], next[Word::kCount];
      for (int s = 0; s < operation.sources; s += kAtOnce) {
        const int batch = min(kAtOnce, operation.sources - s);
        Pair pairs[kAtOnce];
        load_batch(sources + s, 1, batch, line, share, pairs);
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
    for (int d = 0; d < operation.destinations; ++d) store(places[d], line, share, result);
  }

  __device__ void store(const DevicePlace& place, uint32_t line, const Share& share, const Pair& pair) const {
    if (place.base == kOutputBase) {
      std::byte* buffer = output_ + place.offset;
      if (share.low_count > 0) store_word(buffer, share.word, share.low_count, Word(pair.low));
      if (share.high_count > 0) store_word(buffer, share.word + 1, share.high_count, Word(pair.high));
    } else {
      const uint64_t high = has_flag() ? flag_ : pair.high;
      asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(stored(place, line)), "l"(pair.low), "l"(high)
                   : "memory");
    }
  }

  // This thread's words of a line, and how many elements they hold.
  __device__ Share share_of(const DeviceOperation& operation, uint32_t line) const {
    const uint32_t word = line * kWords + 2 * place_;
    return {word, elements_of(operation, word), has_flag() ? 0 : elements_of(operation, word + 1)};
  }

  // How many elements of the operation word `word` holds.
  __device__ static uint32_t elements_of(const DeviceOperation& operation, uint32_t word) {
    const uint32_t first = word * Word::kCount;
    return first >= operation.elements ? 0 : min(operation.elements - first, static_cast<uint32_t>(Word::kCount));
  }

  // This thread's pair of up to kAtOnce sources, `stride` places apart, all under way at once. All threads of the line
  // together.
  __device__ void load_batch(const DevicePlace* sources, int stride, int batch, uint32_t line, const Share& share,
                             Pair (&pairs)[kAtOnce]) {
    unsigned missing = 0;
#pragma unroll
    for (int b = 0; b < kAtOnce; ++b) {
      if (b >= batch) break;
      if (sources[b * stride].base >= kFirstScratchBase) {
        missing |= 1u << b;
        continue;
      }
      const std::byte* buffer =
          (sources[b * stride].base == kInputBase ? input_ : output_) + sources[b * stride].offset;
      if (share.low_count > 0) pairs[b].low = load_word<Word>(buffer, share.word, share.low_count).bits;
      if (share.high_count > 0) pairs[b].high = load_word<Word>(buffer, share.word + 1, share.high_count).bits;
    }
    Patience patience;
    while (missing != 0) {
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        if ((missing >> b & 1) == 0) continue;
        asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                     : "=l"(pairs[b].low), "=l"(pairs[b].high)
                     : "l"(stored(sources[b * stride], line))
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
