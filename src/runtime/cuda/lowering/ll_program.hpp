// A queue's program in the form of the kernels whose data carries flags. Such launches are short, and last as long as
// the instructions between the start and the first store, and between the last load and the end: so what a thread needs
// for a step stands in one place of a table, worked out by the host as far as it can be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/cuda/lowering/queue_program.hpp"

namespace plait {

// A reduce; or copies, performed at once: source i to destination i. With packets, a reduce of one source is copies of
// it.
struct alignas(uint64_t) LlStep {
  uint16_t words = 0;         // of eight bytes, that hold the elements of each source
  uint8_t last_elements = 0;  // of the last of them
  uint8_t sources = 0;
  uint8_t destinations = 0;
  uint8_t divisor = 0;  // average: of the finished sum; 0: none
  bool copies = false;
  bool last_word_is_full = false;  // the last word is as full as the others
};
static_assert(sizeof(LlStep) == sizeof(uint64_t));

// What is at one place of a step: a source, a destination, both or none (0). An address with the highest bit is where
// data has flags, in packets or lines, for channel 0 and even epochs; others are the caller's, of slice 0.
struct alignas(16) LlPlace {
  uint64_t source = 0;
  uint64_t destination = 0;
};
PLAIT_HOST_DEVICE constexpr bool is_flagged(uint64_t address) { return static_cast<int64_t>(address) < 0; }
PLAIT_HOST_DEVICE constexpr bool is_user(uint64_t address) { return static_cast<int64_t>(address) > 0; }

// LL ones also name the rank that stores there, in bits that no address has, for whoever waits in vain.
inline constexpr int kMostAddressBits = 57, kWriterShift = 59, kWriterMask = 15;
static_assert(kMostAddressBits <= kWriterShift && kMostDeviceRanks == kWriterMask + 1);
constexpr uint64_t ll_address(uint64_t address, int writer) {
  return uint64_t{1} << 63 | static_cast<uint64_t>(writer) << kWriterShift | address;
}
PLAIT_HOST_DEVICE constexpr uint64_t without_flag(uint64_t address) {
  return address & ((uint64_t{1} << kWriterShift) - 1);
}
PLAIT_HOST_DEVICE constexpr int writer_at(uint64_t address) {
  return static_cast<int>(address >> kWriterShift) & kWriterMask;
}

struct LlProgram {
  std::vector<LlStep> steps;
  std::vector<LlPlace> places;  // of step s: from s << group_shift on, 1 << group_shift of them
  SliceProgram full, last;      // of steps, at least one
  int group_shift = 0;

  // Where the caller's addresses go: buffer + offset.
  struct UserPlace {
    uint16_t place = 0;
    bool is_destination = false;
    bool output = false;
    uint64_t offset = 0;
  };
  std::vector<UserPlace> user_places;
  bool words_are_aligned = true;  // every piece of the caller's buffers starts at a multiple of eight bytes, if they do
};

// Places of a step in plans where every rank hears from every other.
inline constexpr int kMostGroup = 16;

// `blocks`: where the memory of every rank begins. Throws kResources where counts are too large for a step.
LlProgram make_ll_program(const QueueProgram& program, Protocol protocol, DataType type,
                          std::span<std::byte* const> blocks);

}  // namespace plait
