// Calls of one step: everybody stores what others need of it, and takes what they store here. Most short calls are
// that, and where they consist of whole words, a kernel of its own (one_step_kernel.hpp) performs them, in which a
// thread has one word to give and one to take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/call.hpp"
#include "runtime/cuda/flagged_program.hpp"

namespace plait {

// What the threads at one place of their groups do: `given` is stored at `given_to`; `taken` of all of a group are
// combined, or each by itself is copied, to `taken_to`. 0: nothing. Given is only what is the caller's, and only the
// caller's memory is taken to; for the others see kFlaggedAddress.
struct alignas(32) OneStepPlace {
  enum Field { kGiven, kGivenTo, kTaken, kTakenTo, kFields };
  uint64_t addresses[kFields] = {};
};

struct OneStepProgram {
  // What is done with one slice.
  struct Slice {
    uint32_t words = 0;
    OneStepPlace places[kMostGroup];
  };
  Slice full, last;
  int group_shift = 0;  // 1 << group_shift threads for each word
  int combined = 0;     // sources that are combined, in the order of places; 0: all are copied
  bool hears_everyone = false, is_awaited = true;

  // Where the caller's addresses go: buffer + offset.
  struct CallersPlace {
    bool full = false;  // of `full`, else of `last`
    uint8_t place = 0;
    OneStepPlace::Field field = OneStepPlace::kGiven;
    bool output = false;
    uint64_t offset = 0;
  };
  std::vector<CallersPlace> callers;
};

// Nothing where the call is not of this kind: more steps, words that are not whole, or a reduction that is not a sum.
std::optional<OneStepProgram> make_one_step_program(const FlaggedProgram& program, uint64_t slices, const Call& call);

}  // namespace plait
