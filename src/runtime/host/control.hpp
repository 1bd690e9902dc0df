// Ranks of several hosts tell each other two things beside the data: failures, and that they leave.
//
// Ranks of one host see each other's failures and processes in the memory that they share. Between hosts the star of
// connections around rank 0, over which the ranks met, stays open for that. A thread of each rank sleeps at its
// connections. The first failure that a rank of any host records goes to rank 0, and from there into the memory of
// every host. So all that look there for failures hear of it. A connection that ends without a word is a rank that has
// died. docs/dev/connections.md says why it is a star.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/bootstrap.hpp"
#include "runtime/host/fork_mark.hpp"
#include "runtime/host/segment.hpp"

namespace plait {

class Control {
 public:
  // A rank that ended without a word may have done its part in a call that others still complete. So they hear of its
  // end only after that time.
  static constexpr double kGraceSeconds = 0.5;

  // Takes the connections of `bootstrap`, over which nothing else is said any more. `segment` is the memory of this
  // rank's host, with room for the ranks of all hosts. `names` tells the ranks apart in messages: "rank 3 (process 77
  // on node2)". Throws kResources if no thread can be started.
  Control(Bootstrap bootstrap, std::shared_ptr<Segment> segment, std::vector<std::string> names);
  // Leaves.
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Tells the other ranks that this one will make no more calls, after the failure that this host has recorded, if
  // there is one. Rank 0 passes on what others say until all have left or its process ends. May be repeated.
  void leave();

 private:
  class Star;

  std::shared_ptr<Star> star_;
  std::thread thread_;
  const ForkMark fork_mark_;
  bool has_left_ = false;
};

}  // namespace plait
