// Calls of one or two exchanges, which are most calls with LL and LL128. Each rank sends what its peers need, and
// receives what they send: that is all of a call with one step. With two, a rank combines or copies what it receives in
// the first phase and sends it on, and all receive in the second. They have kernels of their own (two_shot_kernel.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/call.hpp"
#include "runtime/cuda/lowering/ll_program.hpp"

namespace plait {

// The work at one place, for each word of it. The word at kSend is stored at kSendTo. The words at kReceive are
// combined over all places, or copied one by one, to kReceiveTo. An address of 0 stands for nothing. kSend is always in
// a user buffer; the other addresses may be LL addresses, see ll_address().
struct alignas(32) TwoShotPlace {
  enum Field { kSend, kSendTo, kReceive, kReceiveTo, kFields };
  uint64_t addresses[kFields] = {};
};

// The work of a rank in one call, in the form that the kernels read.
struct TwoShotSteps {
  static constexpr int kMostPhases = 2;
  // The size of a place: words of eight bytes, and how many bytes the last word lacks.
  struct Extent {
    uint32_t words = 0, lacking = 0;

    PLAIT_HOST_DEVICE constexpr uint32_t bytes() const { return words * 8 - lacking; }
  };
  struct Phase {
    int places = 0;    // the first so many places receive
    int combined = 0;  // the first so many received words are combined, in order; 0: all are copied
    int results = 0;   // the first so many places store the combined word
  };
  // The work on one slice. The first phase begins after everything is sent. The second receives only from peers,
  // and only into user buffers.
  struct Slice {
    Extent most;              // of the largest place
    int sent = 0;             // the first so many places send
    bool sends_same = false;  // all of them send the same words
    int phase_count = 0;
    Phase phases[kMostPhases];
    EpochEnd end;
    Extent sent_extents[kMostGroup], received_extents[kMostPhases][kMostGroup];
    TwoShotPlace places[kMostPhases][kMostGroup];
  };
  int group_shift = 0;  // at most 1 << group_shift places
  Slice full, last;
};

struct TwoShotProgram {
  TwoShotSteps steps;
  int width = 0;            // the most places that send, or that receive in one phase
  bool is_one_step = true;  // one exchange, and all places of a slice have equally many bytes
  bool is_aligned = true;   // if user buffers are 8-byte aligned, all places begin and end at multiples of eight bytes

  // A place for an address in a user buffer, which each launch fills in: buffer + offset.
  struct UserPlace {
    bool full = false;  // in `full`, else in `last`
    uint8_t phase = 0, place = 0;
    TwoShotPlace::Field field = TwoShotPlace::kSend;
    bool output = false;
    uint64_t offset = 0;
  };
  std::vector<UserPlace> user_places;
};

// None if the call is of another kind: it has more steps, or a reduction that is not a sum.
std::optional<TwoShotProgram> make_two_shot_program(const LlProgram& program, uint64_t slices, const Call& call);

}  // namespace plait
