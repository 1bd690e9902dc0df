// The last look of a rank that leaves at what the others have called.
//
// A rank may be done with a broadcast, a reduction, a gather or a scatter before others have come to it. So when it
// leaves it waits a little for them. Where they do not come it leaves all the same: who computes for longer is not
// wrong. Its status stays, so that of two ranks the later one sees all calls of both.
#pragma once

#include "runtime/host/call_difference.hpp"
#include "runtime/host/segment.hpp"
#include "runtime/host/watch.hpp"

namespace plait {

class LastLook {
 public:
  // How long a rank waits at most for others to come to its calls.
  static constexpr double kTimeoutSeconds = 1;

  // Of a rank whose status says that it has left. All three outlive this.
  LastLook(const Segment& segment, int rank, const Watch& watch);

  // Whether this rank knows that all others have made the calls that it has made, or that the communicator has failed
  // for another reason. Throws kMismatch, also on others that still call, where one has made other calls, or has left
  // after more or fewer; kPeerFailed where one has died before it came to a call of this rank.
  bool is_over();

 private:
  bool is_over(int peer, LogOfStatus log) const;
  bool is_news_of_mismatch() const;

  const Segment& segment_;
  const int rank_;
  const Watch& watch_;
};

}  // namespace plait
