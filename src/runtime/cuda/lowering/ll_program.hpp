// A queue's program for the LL and LL128 kernels. Their launches are short: the time goes into the instructions before
// the first store and after the last load. So the host works out as much as it can, and a thread finds what it needs
// for a step in one entry of a table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/cuda/lowering/queue_program.hpp"

namespace plait {

// A reduce, or a batch of copies from source i to destination i. With LL, a reduce of one source is a batch of copies
// of it.
struct alignas(uint64_t) LlStep {
  uint16_t words = 0;         // of eight bytes, that hold the elements of each source
  uint8_t last_elements = 0;  // elements in the last word
  uint8_t sources = 0;
  uint8_t destinations = 0;
  uint8_t divisor = 0;  // average: the result is divided by it; 0: not
  bool copies = false;
  bool last_word_is_full = false;  // the last word is as full as the others
};
static_assert(sizeof(LlStep) == sizeof(uint64_t));

// One place of a step: a source, a destination, both, or neither (0). An address with the highest bit set is an LL
// address: it is in LL or LL128 memory, where data carries flags, and holds for channel 0 and even epochs. Other
// addresses are in user buffers, and hold for slice 0.
struct alignas(16) LlPlace {
  uint64_t source = 0;
  uint64_t destination = 0;
};
PLAIT_HOST_DEVICE constexpr bool is_flagged(uint64_t address) { return static_cast<int64_t>(address) < 0; }
PLAIT_HOST_DEVICE constexpr bool is_user(uint64_t address) { return static_cast<int64_t>(address) > 0; }

// LL addresses also name the rank that stores there, in bits that no address uses. A wait that fails reports it.
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
  std::vector<LlPlace> places;  // those of step s begin at s << group_shift; there are 1 << group_shift
  SliceProgram full, last;      // at least one step each
  int group_shift = 0;

  // A place for an address in a user buffer, which each launch fills in: buffer + offset.
  struct UserPlace {
    uint16_t place = 0;
    bool is_destination = false;
    bool output = false;
    uint64_t offset = 0;
  };
  std::vector<UserPlace> user_places;
  bool words_are_aligned = true;  // if user buffers are 8-byte aligned, all pieces of them are
};

// The most places of a step. It suffices for plans in which every rank receives from every other.
inline constexpr int kMostGroup = 16;

// `blocks`: every rank's block. Throws kResources if counts are too large for a step.
LlProgram make_ll_program(const QueueProgram& program, Protocol protocol, DataType type,
                          std::span<std::byte* const> blocks);

}  // namespace plait
