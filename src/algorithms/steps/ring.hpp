// The two phases of a ring over any list of ranks. The algorithms ring, scatter_ring, hierarchical_ring and
// three_stage consist of them.
#pragma once

#include <optional>
#include <vector>

#include "algorithms/steps/carrier.hpp"
#include "algorithms/steps/held.hpp"

namespace plait {

// A ring of P queues around a message of P pieces, which are neighbours in the message unless the shape says otherwise.
// Every step moves one piece from each queue to the next, in `parts` parts, so that one part is reduced while the next
// is under way (UEN-08).
//
// Landing places are used again after P steps without any further signal. The queue after this one reads the landing
// place of step t in its step t + 1. The news of that has come all the way round when this queue starts step t + P.
class RingSteps {
 public:
  struct Shape {
    std::vector<QueueId> queues;  // in the order of the ring
    // They perform the first step, in which a rank only gives, and what follows the last one, in which it only gets.
    // Empty: the queues themselves.
    std::vector<QueueId> first_queues = {}, last_queues = {};
    int first_chunk = 0;  // of the message that goes round
    int part_chunks = 1;
    int parts = 1;  // a piece has parts * part_chunks chunks
    // Where each queue's piece begins. Empty: pieces are neighbours in the order of the queues.
    std::vector<int> first_of_piece = {};
    bool scatters = true;          // reduce_scatter() will be called
    bool gathers = true;           // all_gather() will be called
    bool stores_to_peers = false;  // all_gather() may store where the next rank wants it (Access::kZeroCopy)
    // all_gather(): the first queue's rank has all pieces from the beginning, wherever it wants them. It only gives.
    bool first_has_all = false;
  };

  RingSteps(PlanBuilder& builder, Carrier& carrier, Shape shape);

  // A step before all_gather(), if no reduce_scatter() came before it and it stores to peers: every rank that gets
  // anything lets the previous one, if it is on the same node, store to its output.
  void call_previous();
  // All that the shape says, from inputs to outputs.
  void perform(HeldByRank held, const Finish& finish);

  // After P - 1 steps queue x has all contributions of its ring to piece x. The arrivals come first in held[rank], and
  // they are not yet awaited.
  void reduce_scatter(HeldByRank& held);
  // Awaits what reduce_scatter() has under way.
  void settle();

  // Ends after reduce_scatter(): queue x stores piece x where it belongs.
  void store(const HeldByRank& held, const Finish& finish);
  // After P - 1 steps every queue has stored every piece. Queue x starts with piece x, which it makes from held[rank].
  void all_gather(const HeldByRank& held, const Finish& finish);

 private:
  int size() const { return static_cast<int>(shape_.queues.size()); }
  int next(int x) const { return (x + 1) % size(); }
  bool has_all(int x) const { return shape_.first_has_all && x == 0; }
  // The queue that acts after so many steps.
  QueueId queue(int x, int steps) const;
  int piece_chunks() const { return shape_.parts * shape_.part_chunks; }
  ChunkRange range(int piece, int part) const;
  // Whether the last phase uses scratch to pass pieces to queue x.
  bool lands_in_scratch(int x) const;
  void await(int x, int part);
  // Stores what lies at the sources and, except in the last step, passes it on.
  void spread(int x, int step, int part, const std::vector<Place>& sources, const Finish& finish);

  PlanBuilder& builder_;
  Carrier& carrier_;
  Shape shape_;
  std::vector<Place> landing_;  // of each queue
  int steps_done_ = 0;          // gives the number of the landing place
  // [queue][part]
  std::vector<std::vector<std::optional<Arrival>>> arrivals_, next_arrivals_;
};

}  // namespace plait
