// On which terms Plait would take calls of a communicator over: what stands against it, and the table that says which.
#pragma once

#include <memory>
#include <string>

#include "api/nccl/drop_in.hpp"
#include "api/nccl/wins.hpp"

namespace plait::nccl {

// The GPU of a rank.
struct RankGpu {
  int device = -1;  // none
  std::string name;
  bool has_multicast = false;

  // That whose context is current on this thread.
  static RankGpu current();
};

struct Terms {
  std::string objection;                   // empty: there is none
  std::shared_ptr<const WinsTable> table;  // null where all calls are taken
};

Terms terms_of(DropIn& drop_in, const RankGpu& gpu, int ranks);

// What is taken on these terms, in words; they must have no objection.
std::string what_is_taken(const DropIn& drop_in, const Terms& terms);

}  // namespace plait::nccl
