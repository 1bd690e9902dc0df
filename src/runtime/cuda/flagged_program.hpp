// A lane's program in the form of the kernels whose data carries flags: a stream of words, each step followed by the
// addresses it works on. Such launches are short, and a kernel with nothing in its caches pays for every load that has
// to wait for another; here a step and the addresses of its sources are found at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/cuda/lane_program.hpp"

namespace plait {

// A fold; or copies, performed at once: source i to destination i. In the stream, the addresses of its sources and then
// of its destinations follow it.
struct FlaggedStep {
  uint32_t elements = 0;  // of each source
  uint8_t sources = 0;
  uint8_t destinations = 0;
  bool copies = false;
  uint8_t divisor = 0;  // average: of the finished sum; 0: none
};
static_assert(sizeof(FlaggedStep) == sizeof(uint64_t));

// The bit of an address in the stream that is set where data there has flags: in packets or lines of this address for
// strand 0 and even epochs; others are in the caller's memory, of slice 0.
inline constexpr uint64_t kFlaggedAddress = uint64_t{1} << 63;

struct FlaggedProgram {
  std::vector<uint64_t> words;
  SliceProgram full, last;  // `first` counts words, `count` steps
  int group_shift = 0;      // no step has more than 1 << group_shift sources, or destinations

  // Where the caller's addresses go: words[word] = buffer + offset.
  struct CallersPlace {
    uint16_t word = 0;
    bool output = false;
    uint64_t offset = 0;
  };
  std::vector<CallersPlace> callers;
  bool has_whole_words = true;  // every piece of the caller's buffers starts at a multiple of eight bytes, if they do
};

// Threads that share a word of a packet in plans where every rank hears from every other.
inline constexpr int kMostGroup = 16;

// `blocks`: where the memory of every rank begins. Throws kResources where counts are too large for a step.
FlaggedProgram make_flagged_program(const LaneProgram& program, Protocol protocol, std::span<std::byte* const> blocks);

}  // namespace plait
