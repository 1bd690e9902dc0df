// How the ranks of a communicator, or two of them that exchange messages, agree call by call to perform a call in a way
// that none of them can choose alone. offers.hpp has the rules of a single meeting. This file decides which meeting
// belongs to a call, and what the ranks must have in common there.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "runtime/offers.hpp"

namespace plait {

// A rank's proposal for one call.
struct Proposal {
  uint32_t call = 0;  // the call's signature
  bool willing = false;
  std::array<std::byte, 224> words = {};  // data for the other ranks, opaque here
};

// One rank's side. All ranks that meet make the same calls in the same order. One thread at a time.
class Meetings {
 public:
  enum class Outcome {
    kAgreed,
    kNotTried,   // skipped after failed meetings, see Offers::put()
    kLate,       // some rank came too late
    kRefused,    // some rank is not willing, cannot, or makes another call
    kOutOfStep,  // some rank has captured a call that another rank made at once: ranks agree on nothing after that
  };

  // Bytes of shared memory, as in Offers::bytes_for(). There is a table for each kind of call.
  static size_t bytes_for(int ranks) { return 2 * Offers::bytes_for(ranks); }
  Meetings(std::byte* memory, int rank, int ranks);

  // Begins the next call, which may be captured in a graph. Returns false if ranks never agree any more; the functions
  // below must not be called then.
  bool begin_call(bool captured);
  // An agreement on that call has three steps, because a rank that is in several meetings at a time has to join all of
  // them before it waits in one. Each step may follow only a step that returned true. meet() waits for the others for
  // `timeout` at most, and returns false for kLate. The outcome is kAgreed on all ranks or on none; if it is, all ranks
  // are in the same call. meet() calls `can` with the proposals of all ranks if all are willing and make the same call;
  // `can` must not throw. For `look` see Offers::all_can().
  bool propose(const Proposal& ours);  // never waits; false: kNotTried
  bool meet(std::chrono::nanoseconds timeout, const std::function<bool(std::span<const Proposal>)>& can);
  Outcome conclude(const std::function<void()>& look);
  // A number of the last call that was agreed on: the same on all ranks, and different for every such call.
  uint64_t agreement() const { return agreement_; }

 private:
  // Counts the calls before one call.
  struct Counts {
    uint32_t all = 0, captured = 0;
    friend bool operator==(const Counts&, const Counts&) = default;
  };
  struct Row {
    Counts before;
    Proposal proposal;
  };

  Offers& offers() { return captured_ ? offers_of_captured_ : offers_of_calls_; }

  const int ranks_;
  // Captured calls have meetings of their own. They are made once and launched often, so they must not be skipped
  // because calls that were not captured failed to agree.
  Offers offers_of_calls_, offers_of_captured_;
  Counts before_, next_;  // the current call, and the next one
  bool captured_ = false;
  uint32_t call_ = 0;  // signature of the current call
  // Once ranks have captured different calls, meetings that happen together may belong to different calls.
  bool in_step_ = true;
  uint64_t agreement_ = 0;
};

}  // namespace plait
