// How ranks agree, call by call, to work on each other's buffers directly: those of a communicator, or two of them.
//
// That pays only where all ranks are in the call at the same time, and nobody shall wait long to find that out. So each
// call has a meeting on the host: a rank puts what it offers on the table and waits for the others, as long as it has
// timeout. The first one that has no more closes the meeting, for all: ranks that come later find it closed. Where all
// have come, each looks at all offers and says whether it can do with them.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "runtime/waiting.hpp"

namespace plait {

// What a rank tells the others of its buffers for one call; opaque here.
inline constexpr size_t kOfferBytes = 256;
using Offer = std::array<std::byte, kOfferBytes>;

// A segment has no memory for offers where there are more.
inline constexpr int kMostOfferingRanks = 16;

struct OfferTable;

// A rank's end. All ranks make the same sequence of put(). Not for several threads at a time.
class Offers {
 public:
  // Of shared memory, at a multiple of 64 bytes, zero at first.
  static size_t bytes_for(int ranks);
  Offers(std::byte* memory, int rank, int ranks, Backoff backoff = {WaitPolicy::kAuto, false});

  // Puts this rank's offer for its next call on the table; never waits. False: the call is not to be tried at all. A
  // meeting in vain costs timeout, so the 1, 2, 4, ... and at most 64 calls after one are not tried; a meeting that
  // all came to sets that back. How a meeting ended is the same for all ranks, so all leave out the same calls.
  bool put(const Offer& offer);
  // After a put() that was true, before the next one: waits until every rank has put its own, for `timeout` at most.
  // False: one came too late, or never. Then it is false on every rank, also on those that come later.
  bool all_put(std::chrono::nanoseconds timeout);

  // The number of the last meeting, counted from 1: the same on all ranks that were there.
  uint64_t meeting() const { return meeting_; }
  // After an all_put() that was true, until answer().
  Offer of(int rank) const;
  // After an all_put() that was true: says whether this rank can do with what it was offered; never waits.
  void answer(bool can);
  // After an answer(), before the next put(): whether all ranks can, the same on all of them. Waits for all; calls
  // `look` now and then (about every 100 us to 1 ms), which may throw to end the wait, and this rank's offers with it:
  // every put() after that is false.
  bool all_can(const std::function<void()>& look);

 private:
  enum class Stage { kApart, kPut, kMet, kAnswered, kGone };

  void expect(Stage stage, const char* what) const;
  Offer& row(int rank) const;
  void join();
  bool wait_for_all(std::chrono::nanoseconds timeout);
  void end(bool in_vain);

  OfferTable* table_;
  int rank_;
  uint64_t ranks_;
  Backoff backoff_;
  Stage stage_ = Stage::kApart;
  uint64_t meeting_ = 0;  // this rank's last one, counted from 1
  int skips_ = 0;         // calls that are still not to be tried
  int next_skips_ = 1;    // after the next meeting in vain
};

}  // namespace plait
