// How ranks agree, call by call, to work on each other's buffers directly. They may be all ranks of a communicator, or
// two of them.
//
// Zero-copy pays only if all ranks are in the call at the same time, and no rank should wait long to find that out. So
// each call has a meeting on the host: a rank puts its offer on the table and waits for the others until its timeout is
// over. The first rank whose timeout is over closes the meeting for all, and ranks that come later find it closed. If
// all ranks have come, each looks at all offers and votes whether it can work with them.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "runtime/waiting.hpp"

namespace plait {

// The data about its buffers that a rank gives the others for one call. Opaque here.
inline constexpr size_t kOfferBytes = 256;
using Offer = std::array<std::byte, kOfferBytes>;

// A segment has no memory for offers of more ranks.
inline constexpr int kMostOfferingRanks = 16;

struct OfferTable;

// One rank's side. All ranks make the same sequence of put(). One thread at a time.
class Offers {
 public:
  // The memory is shared, aligned to 64 bytes, and zero at first.
  static size_t bytes_for(int ranks);
  Offers(std::byte* memory, int rank, int ranks, Backoff backoff = {WaitPolicy::kAuto, false});

  // Puts this rank's offer for its next call on the table. Never waits. Returns false if this call must not be tried at
  // all. A failed meeting costs the timeout, so the next 1, 2, 4, ... and at most 64 calls after one are skipped; a
  // full meeting resets that. All ranks see a meeting end the same way, so all skip the same calls.
  bool put(const Offer& offer);
  // Call it after a put() that returned true, before the next one. Waits for `timeout` at most until every rank has put
  // its offer. Returns false if a rank came too late or not at all. It is then false on every rank, including those
  // that come later.
  bool all_put(std::chrono::nanoseconds timeout);

  // The number of the last meeting, from 1. It is the same on all ranks that came.
  uint64_t meeting() const { return meeting_; }
  // The offer of `rank`. Call it after an all_put() that returned true, and before answer().
  Offer of(int rank) const;
  // Votes whether this rank can work with the offers. Call it after an all_put() that returned true. Never waits.
  void answer(bool can);
  // Returns whether all ranks can, the same on all of them. Call it after answer(), before the next put(). Waits for
  // all votes, and calls `look` now and then (about every 100 us to 1 ms). `look` may throw to end the wait. That also
  // ends this rank's offers: every later put() returns false.
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
  uint64_t meeting_ = 0;  // this rank's last one, from 1
  int skips_ = 0;         // number of calls that are still to be skipped
  int next_skips_ = 1;    // number to skip after the next failed meeting
};

}  // namespace plait
