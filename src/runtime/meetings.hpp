// How the ranks of a communicator, or two of them that exchange messages, agree, call by call, to perform a call in a
// way that none of them can choose alone. The rules of a single meeting are in offers.hpp; here is which meeting a call
// has, and what the ranks must have in common there.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "runtime/offers.hpp"

namespace plait {

// What a rank says of one call.
struct Proposal {
  uint32_t call = 0;  // its signature
  bool willing = false;
  std::array<std::byte, 224> words = {};  // what the others have to know; opaque here
};

// A rank's end. All ranks that meet make the same calls in the same order. Not for several threads at a time.
class Meetings {
 public:
  enum class Outcome {
    kAgreed,
    kNotTried,   // after meetings in vain, see Offers::put()
    kLate,       // some rank did not come in time
    kRefused,    // some rank is not willing, cannot, or makes another call
    kOutOfStep,  // some rank has captured what another one made at once: nothing is agreed on any more
  };

  // Of shared memory, as Offers::bytes_for(): a table for each kind of call.
  static size_t bytes_for(int ranks) { return 2 * Offers::bytes_for(ranks); }
  Meetings(std::byte* memory, int rank, int ranks);

  // The next call, which may be captured in a graph. False: nothing is agreed on any more, and the rest is not for it.
  bool begin_call(bool captured);
  // For that call, in three steps, as who is in several meetings at a time has to come to all before it waits in one.
  // Each step only after the one before it was true. The others are waited for for `timeout` at most. The outcome is
  // kAgreed on all ranks or on none, and then they are all in the same call. `can` is asked with the proposals of all
  // ranks where these are willing and make the same call; it must not throw. `look`: see Offers::all_can().
  bool propose(const Proposal& ours);  // never waits; false: kNotTried
  bool meet(std::chrono::nanoseconds timeout, const std::function<bool(std::span<const Proposal>)>& can);  // kLate
  Outcome conclude(const std::function<void()>& look);
  // Of the last call that was agreed on: the same on all ranks, and different for all such calls.
  uint64_t agreement() const { return agreement_; }

 private:
  // Calls before one.
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
  // Those that are captured meet apart: they are made once and launched often, so they must not be left out because of
  // calls that were not captured and met in vain.
  Offers offers_of_calls_, offers_of_captured_;
  Counts before_, next_;  // the call at hand, and the one after it
  bool captured_ = false;
  uint32_t call_ = 0;  // its signature
  // What ranks say at the same time need not be of the same call once they have not captured the same ones.
  bool in_step_ = true;
  uint64_t agreement_ = 0;
};

}  // namespace plait
