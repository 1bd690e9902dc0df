// Two-shot calls, which are most calls there are. Of one step: everybody stores what others need, and takes what they
// store here. Of two: what is taken first is combined, or copied, and stored at others, who take it. Kernels of their
// own (two_shot_kernel.hpp) perform them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/call.hpp"
#include "runtime/cuda/lowering/ll_program.hpp"

namespace plait {

// What is done at one place with every word: `given` is stored at `given_to`; `taken` of all places are combined, or
// each by itself is copied, to `taken_to`. 0: nothing. Given is only what is the caller's; for the others see
// ll_address().
struct alignas(32) TwoShotPlace {
  enum Field { kSend, kSendTo, kReceive, kReceiveTo, kFields };
  uint64_t addresses[kFields] = {};
};

// What a rank does in one call, in the form that the kernels read.
struct TwoShotSteps {
  static constexpr int kMostPhases = 2;
  // How much a place has: words of eight bytes, of which the last may lack some.
  struct Extent {
    uint32_t words = 0, lacking = 0;

    PLAIT_HOST_DEVICE constexpr uint32_t bytes() const { return words * 8 - lacking; }
  };
  struct Phase {
    int places = 0;    // that take, from the first on
    int combined = 0;  // what is taken at so many places is combined, in their order; 0: all is copied
    int results = 0;   // places that what is combined goes to
  };
  // With one slice. The first taking comes after all is given; the second is only of what others have stored, and for
  // the caller.
  struct Slice {
    Extent most;              // of the places
    int sent = 0;             // places that give, from the first on
    bool sends_same = false;  // all that give give the same
    int phase_count = 0;
    Phase phases[kMostPhases];
    EpochEnd end;
    Extent sent_extents[kMostGroup], received_extents[kMostPhases][kMostGroup];
    TwoShotPlace places[kMostPhases][kMostGroup];
  };
  int group_shift = 0;  // no more than 1 << group_shift places
  Slice full, last;
};

struct TwoShotProgram {
  TwoShotSteps steps;
  int width = 0;            // the most places that give, or that take in one taking
  bool is_one_step = true;  // and all places of a slice have equally many bytes
  bool is_aligned = true;   // all places consist of words of eight bytes and begin at multiples of it, if buffers do

  // Where the caller's addresses go: buffer + offset.
  struct UserPlace {
    bool full = false;  // of `full`, else of `last`
    uint8_t phase = 0, place = 0;
    TwoShotPlace::Field field = TwoShotPlace::kSend;
    bool output = false;
    uint64_t offset = 0;
  };
  std::vector<UserPlace> user_places;
};

// Nothing where the call is not of this kind: more steps, or a reduction that is not a sum.
std::optional<TwoShotProgram> make_two_shot_program(const LlProgram& program, uint64_t slices, const Call& call);

}  // namespace plait
