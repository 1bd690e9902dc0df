// A rank that leaves compares its calls with those of the others one last time.
//
// A rank may complete a broadcast, a reduce, a gather or a scatter before others have come to it. So it waits a little
// for them when it leaves. If they do not come it leaves all the same: a rank that computes for longer is not wrong.
// Its status stays, so that the later of two ranks sees all calls of both.
#pragma once

#include "runtime/host/call_difference.hpp"
#include "runtime/host/segment.hpp"
#include "runtime/host/watch.hpp"

namespace plait {

class LastLook {
 public:
  // The longest time that a rank waits for others to come to its calls.
  static constexpr double kTimeoutSeconds = 1;

  // `rank` is this rank, whose status says that it has left. The arguments outlive this object.
  LastLook(const Segment& segment, int rank, const Watch& watch);

  // Returns true if this rank knows that all others have made the calls that it has made, or that the communicator has
  // failed for another reason. Throws kMismatch if a rank has made different calls, or has left after more or fewer;
  // ranks that still call get it too. Throws kPeerFailed if a rank has died before it came to a call of this rank.
  bool is_over();

 private:
  bool is_over(int peer, LogOfStatus log) const;
  bool is_news_of_mismatch() const;

  const Segment& segment_;
  const int rank_;
  const Watch& watch_;
};

}  // namespace plait
