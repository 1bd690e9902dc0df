// Calls of one step: everybody stores what others need of it, and takes what they store here. Most short calls are
// that, and where they consist of whole words, kernels of their own (one_step_kernel.hpp) perform them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/call.hpp"
#include "runtime/cuda/flagged_program.hpp"

namespace plait {

// What is done at one place with every word: `given` is stored at `given_to`; `taken` of all places are combined, or
// each by itself is copied, to `taken_to`. 0: nothing. Given is only what is the caller's, and only the caller's memory
// is taken to; for the others see kFlaggedAddress.
struct alignas(32) OneStepPlace {
  enum Field { kGiven, kGivenTo, kTaken, kTakenTo, kFields };
  uint64_t addresses[kFields] = {};
};

// What a rank does in one call, in the form that the kernels read.
struct OneStep {
  // With one slice.
  struct Slice {
    uint32_t words = 0;
    OneStepPlace places[kMostGroup];
  };
  int given = 0, taken = 0;   // places that give and that take, from the first on
  int combined = 0;           // what is taken at so many places is combined, in their order; 0: all is copied
  bool given_is_one = false;  // all that give give the same
  int group_shift = 0;        // no more than 1 << group_shift places
  EpochEnd end;
  Slice full, last;
};

struct OneStepProgram {
  OneStep step;

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
