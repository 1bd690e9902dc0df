// Performs steps with the flag inside the data: every 16 bytes in scratch are two words of 4 bytes of data and the
// epoch. Whoever reads a packet polls it until both words are of this epoch, so signals and waits need not be performed
// and no thread waits for another warp of its CTA.
//
// Each word is stored and loaded as one 64-bit access, which is single-copy atomic, so data and flag are never seen
// apart. A group of threads, all of one warp, handles eight bytes of a chunk in every step: each thread looks after one
// source and one destination, so that all are under way at once in little code. Such a launch lasts as long as its
// longest chain of instructions, and code that runs once has to be fetched first.
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
  using Word = Pack<type, uint64_t>;
  using Accumulator = typename Word::Accumulator;

  __device__ PacketEngine(const FlaggedLaunch& launch, const Strand& strand)
      : launch_(launch),
        strand_(strand),
        shift_(launch.group_shift),
        place_(threadIdx.x & ((1u << launch.group_shift) - 1)),
        whole_words_(launch.whole_words) {}

  __device__ void begin_slice(uint64_t slice) {
    callers_at_ = slice * launch_.slice_bytes;
    packets_at_ = BlockLayout::packets_at(strand_.number(), strand_.parity()) - BlockLayout::packets_at(0, 0);
    flag_ = static_cast<uint32_t>(strand_.epoch());
  }

  // All threads of a warp stay together: were each group to vote and shuffle by itself, the warp would run through that
  // once for each group.
  __device__ void perform(const FlaggedStep& step, const uint64_t* addresses) {
    const uint64_t source = addresses[place_];
    const uint64_t destination = addresses[step.sources + place_];
    const uint32_t words = (step.elements + Word::kCount - 1) / Word::kCount;
    const uint32_t ahead = threadIdx.x % 32 >> shift_;  // of the warp's first word
    for (uint32_t first = threadIdx.x / 32 * 32 >> shift_; first < words && good_; first += blockDim.x >> shift_) {
      const uint32_t i = first + ahead;
      const uint32_t count = min(step.elements - i * Word::kCount, static_cast<uint32_t>(Word::kCount));
      uint64_t bits = 0;
      if (i < words && place_ < step.sources) bits = load(source, i, count);
      good_ = __all_sync(kWarp, good_);
      if (!step.copies) bits = combined(step, bits);
      if (i < words && place_ < step.destinations && good_) store(destination, i, count, bits);
    }
  }

  // Not once it has given up.
  __device__ bool is_good() const { return good_; }

 private:
  // What the words of a group's threads combine to, in the order of the sources.
  __device__ uint64_t combined(const FlaggedStep& step, uint64_t bits) const {
    const int group = 1 << shift_;
    const uint64_t first = __shfl_sync(kWarp, bits, 0, group);
    if (step.sources == 1 && step.divisor == 0) return first;
    Accumulator sum[Word::kCount], next[Word::kCount];
    Word(first).widen(sum);
#pragma unroll 1
    for (int s = 1; s < step.sources; ++s) {
      Word(__shfl_sync(kWarp, bits, s, group)).widen(next);
      combine(launch_.op, sum, next);
    }
    divide(sum, step.divisor);
    Word result;
    result.narrow(sum);
    return result.bits;
  }

  __device__ void store(uint64_t address, uint32_t i, uint32_t count, uint64_t bits) const {
    if ((address & kFlaggedAddress) != 0) {
      packets::store(packet(address, i), bits, flag_);
    } else {
      store_word<Word>(callers_word(address, i), count, whole_words_, bits);
    }
  }

  // Gives up where a packet does not come.
  __device__ uint64_t load(uint64_t address, uint32_t i, uint32_t count) {
    if ((address & kFlaggedAddress) == 0) return load_word<Word>(callers_word(address, i), count, whole_words_);
    const std::byte* const from = packet(address, i);
    Patience patience;
    for (;;) {
      const packets::Halves halves = packets::load(from);
      if (halves.carry(flag_)) return halves.data();
      if (!patience.is_over(launch_.self)) continue;
      // Which peer: the address says only which slot, so the host works it out from the operation.
      strand_.give_up(StrandFailure::kTimedOut, -1, -1, 0, halves.flag());
      good_ = false;
      return 0;
    }
  }

  __device__ std::byte* callers_word(uint64_t address, uint32_t i) const {
    return global_pointer(address + callers_at_ + i * sizeof(uint64_t));
  }

  __device__ std::byte* packet(uint64_t address, uint32_t i) const {
    return global_pointer((address & ~kFlaggedAddress) + packets_at_ + i * kPacketBytes);
  }

  const FlaggedLaunch& launch_;
  const Strand& strand_;
  const uint32_t shift_;  // a group has 1 << shift_ threads
  const uint32_t place_;  // in the group
  const bool whole_words_;
  size_t callers_at_ = 0;  // where this slice starts in the caller's memory
  size_t packets_at_ = 0;  // where this epoch's packets start, from the addresses on
  uint32_t flag_ = 0;
  bool good_ = true;
};

}  // namespace plait
