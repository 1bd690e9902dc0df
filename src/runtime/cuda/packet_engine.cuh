// Performs operations with the flag inside the data: every 16 bytes in scratch are two words of 4 bytes of data and the
// epoch. Whoever reads a packet polls it until both words are of this epoch, so signals and waits need not be performed
// and no thread waits for another thread of its CTA.
//
// Each word is stored and loaded as one 64-bit access, which is single-copy atomic, so data and flag are never seen
// apart. A packet is always handled by the same thread of its strand, on the writing and on the reading side.
#pragma once

#include "runtime/cuda/caller_memory.cuh"
#include "runtime/cuda/elements.cuh"
#include "runtime/cuda/strand.cuh"

namespace plait {

namespace packets {

__device__ inline void store(std::byte* to, uint64_t data, uint32_t flag) {
  const uint64_t low = (data & 0xffffffff) | static_cast<uint64_t>(flag) << 32;
  const uint64_t high = data >> 32 | static_cast<uint64_t>(flag) << 32;
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(low), "l"(high) : "memory");
}

// The two words of a packet as they were seen.
struct Halves {
  uint64_t low, high;

  __device__ uint64_t data() const { return (low & 0xffffffff) | high << 32; }
  __device__ uint32_t flag() const { return static_cast<uint32_t>(low >> 32); }
  __device__ bool carry(uint32_t flag) const { return low >> 32 == flag && high >> 32 == flag; }
};

__device__ inline Halves load(const std::byte* from) {
  Halves halves;
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(halves.low), "=l"(halves.high)
               : "l"(from)
               : "memory");
  return halves;
}

}  // namespace packets

template <DataType type>
class PacketEngine {
 public:
  using Launch = FlaggedLaunch;
  using Word = Pack<type, uint64_t>;
  using Storage = typename Word::Storage;
  using Accumulator = typename Word::Accumulator;

  __device__ PacketEngine(Strand<FlaggedLaunch>& strand, std::byte**) : strand_(strand) {}

  __device__ void begin_slice(uint64_t slice) {
    const FlaggedLaunch& launch = strand_.launch();
    input_ = launch.input + slice * launch.slice_bytes;
    output_ = launch.output + slice * launch.slice_bytes;
    flag_ = static_cast<uint32_t>(strand_.epoch());
  }

  __device__ void fold(const DeviceOperation& operation) {
    if (operation.is_done_before) return;
    const uint32_t words = (operation.elements + Word::kCount - 1) / Word::kCount;
    const DevicePlace* places = strand_.launch().places + operation.first;
    for (uint32_t i = threadIdx.x; i < words; i += blockDim.x) {
      if (!good_) return;
      const uint32_t count = min(operation.elements - i * Word::kCount, static_cast<uint32_t>(Word::kCount));
      if (operation.together > 1) {
        copy_word(operation, places, i, count);
      } else {
        fold_word(operation, places, i, count);
      }
    }
  }

  __device__ void signal(const DeviceOperation&) {}
  __device__ bool wait(const DeviceOperation&) { return true; }

  // False: given up.
  __device__ bool finish_slice() { return __syncthreads_and(good_); }

 private:
  static constexpr int kAtOnce = 4;

  // Word `i` of several copies, whose places follow each other: destination, source, destination, …
  __device__ void copy_word(const DeviceOperation& operation, const DevicePlace* places, uint32_t i, uint32_t count) {
    for (int c = 0; c < operation.together; c += kAtOnce) {
      const int batch = min(kAtOnce, operation.together - c);
      uint64_t bits[kAtOnce];
      load_batch(places + 2 * c + 1, 2, batch, i, count, bits);
      if (!good_) return;
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        if (b < batch) store(places[2 * (c + b)], i, count, Word(bits[b]));
      }
    }
  }

  // Combines word `i` of all sources, `count` elements of it, and stores it at all destinations.
  __device__ void fold_word(const DeviceOperation& operation, const DevicePlace* places, uint32_t i, uint32_t count) {
    const DevicePlace* sources = places + operation.destinations;
    Word result;
    if (operation.sources == 1 && operation.divisor == 0) {
      uint64_t bits[kAtOnce];
      load_batch(sources, 1, 1, i, count, bits);
      result.bits = bits[0];
    } else {
      Accumulator sum[Word::kCount], next[Word::kCount];
      for (int s = 0; s < operation.sources; s += kAtOnce) {
        uint64_t bits[kAtOnce];
        const int batch = min(kAtOnce, operation.sources - s);
        load_batch(sources + s, 1, batch, i, count, bits);
#pragma unroll
        for (int b = 0; b < kAtOnce; ++b) {
          if (b >= batch) break;
          const Word word(bits[b]);
          if (s + b == 0) {
            word.widen(sum);
          } else {
            word.widen(next);
            combine(strand_.launch().op, sum, next);
          }
        }
      }
      divide(sum, operation.divisor);
      result.narrow(sum);
    }
    if (!good_) return;
    for (int d = 0; d < operation.destinations; ++d) store(places[d], i, count, result);
  }

  __device__ void store(const DevicePlace& place, uint32_t i, uint32_t count, const Word& word) const {
    if (place.base == kOutputBase) {
      store_word<Word>(output_ + place.offset, i, count, word);
    } else {
      packets::store(packet(place, i), word.bits, flag_);
    }
  }

  // Words `i` of up to kAtOnce sources, `stride` places apart, all under way at once.
  __device__ void load_batch(const DevicePlace* sources, int stride, int batch, uint32_t i, uint32_t count,
                             uint64_t (&bits)[kAtOnce]) {
    unsigned missing = 0;
#pragma unroll
    for (int b = 0; b < kAtOnce; ++b) {
      if (b >= batch) break;
      if (sources[b * stride].base == kInputBase) {
        bits[b] = load_word<Word>(input_ + sources[b * stride].offset, i, count).bits;
      } else if (sources[b * stride].base == kOutputBase) {
        bits[b] = load_word<Word>(output_ + sources[b * stride].offset, i, count).bits;
      } else {
        missing |= 1u << b;
      }
    }
    Patience patience;
    while (missing != 0) {
      packets::Halves halves[kAtOnce];
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        if ((missing >> b & 1) != 0) halves[b] = packets::load(packet(sources[b * stride], i));
      }
      uint32_t seen = 0;
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        if ((missing >> b & 1) == 0) continue;
        bits[b] = halves[b].data();
        if (halves[b].carry(flag_)) {
          missing &= ~(1u << b);
        } else {
          seen = halves[b].flag();
        }
      }
      if (missing != 0 && patience.is_over(strand_.self())) {
        // Which peer: the place says only which slot, so the host works it out from the operation.
        strand_.give_up(StrandFailure::kTimedOut, -1, -1, 0, seen);
        good_ = false;
        return;
      }
    }
  }

  __device__ std::byte* packet(const DevicePlace& place, uint32_t i) const {
    return strand_.packets(static_cast<int>(place.base - kFirstScratchBase)) + place.offset + i * kPacketBytes;
  }

  Strand<FlaggedLaunch>& strand_;
  const std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  uint32_t flag_ = 0;
  bool good_ = true;
};

}  // namespace plait
