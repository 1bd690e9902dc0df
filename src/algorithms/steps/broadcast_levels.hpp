// The work of an algorithm as a level of a broadcast.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "algorithms/level.hpp"
#include "algorithms/steps/carrier.hpp"
#include "algorithms/steps/held.hpp"

namespace plait {

// The members of one list, of which the first has or gets the data for all.
struct BroadcastShape {
  std::vector<QueueId> queues = {};  // of the members, in order
  ChunkRange range;                  // of the message; a multiple of BroadcastAlgorithm::chunks
  Level level;
  bool stores_to_peers = false;  // straight to their outputs (Access::kZeroCopy)
  bool calls = false;            // then: members have yet to say, in these queues, that they were called
};

// Brings what the first member has to the others. The data comes to the first member by a level above, or is its own.
//
//     ahead()    the level above learns where to store it -----> it stores, range by range; a tree passes each on
//     follow()   once all is stored: what is left to be done
class BroadcastLevel {
 public:
  virtual ~BroadcastLevel() = default;

  // Where the first member's data shall be stored, for it and for those that get it from there.
  virtual Finish ahead(const Finish& finish) { return finish; }
  // Every other member stores everything where `finish` says. The first has it at held[its rank]; the level may use
  // held[] of its members.
  virtual void follow(HeldByRank& held, const Finish& finish) = 0;
};

// An algorithm that can be a level of a broadcast. These cannot: rings, spanning_trees and multi_path fill the links or
// paths between all devices of a machine, and leaders have few of them; one_shot is a star, as flat is here.
struct BroadcastAlgorithm {
  // The number of chunks that the range of so many members must be a multiple of.
  int64_t (*chunks)(int members) = nullptr;
  std::unique_ptr<BroadcastLevel> (*make)(PlanBuilder& builder, Carrier& carrier,
                                          const BroadcastShape& shape) = nullptr;
  // Ranges are passed on as they come, so that one queue is enough for all parts of the message.
  bool streams = false;
};

BroadcastAlgorithm broadcast_by_binomial();
BroadcastAlgorithm broadcast_by_chain();
BroadcastAlgorithm broadcast_by_star();
BroadcastAlgorithm broadcast_by_double_binary_tree();
BroadcastAlgorithm broadcast_by_scatter_ring();
BroadcastAlgorithm broadcast_by_scatter_recursive_doubling();

}  // namespace plait
