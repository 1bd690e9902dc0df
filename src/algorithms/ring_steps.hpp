// The two phases of a ring over any list of ranks: what ring, hierarchical_ring and three_stage are made of.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "algorithms/carrier.hpp"

namespace plait {

// Data that lies ready at a place. Scratch and host hold chunks from `first` on; input and output hold all.
struct Held {
  Place place;
  int first = 0;

  Place at(int chunk) const {
    const bool slots = place.buffer == Buffer::kScratch || place.buffer == Buffer::kHost;
    return slots ? slot_after(place, chunk - first) : place;
  }
};

// What of each rank has to be combined, in this order: reductions are left to the fold that needs them.
using HeldByRank = std::vector<std::vector<Held>>;

// A ring of P lanes around a message of P pieces, neighbours in the message too. Every step moves one piece from each
// lane to the next, in `parts` parts, so that one part is reduced while the next is on its way (UEN-08).
//
// Landing places are used again after P steps without any further signal: when a lane starts step t + P, news of step
// t + 1 of the lane after it, which read the landing place of step t, has come all the way round.
class RingSteps {
 public:
  struct Shape {
    std::vector<LaneId> lanes;  // in the order of the ring
    int first_chunk = 0;        // of the message that goes round
    int part_chunks = 1;
    int parts = 1;                 // a piece has parts * part_chunks chunks
    bool scatters = true;          // reduce_scatter() will be called
    bool gathers = true;           // all_gather() will be called
    bool stores_to_peers = false;  // all_gather() may store to the next rank's output (Reach::kPeer)
  };

  RingSteps(PlanBuilder& builder, Carrier& carrier, Shape shape);

  // P - 1 steps after which lane x has all that its ring contributes to piece x: the arrivals come first in
  // held[rank], but are not yet awaited.
  void reduce_scatter(HeldByRank& held);
  // Awaits what reduce_scatter() left on its way.
  void settle();

  struct Finish {
    // Where a finished chunk belongs at this lane's rank: its own output first.
    std::function<std::vector<Held>(int rank)> places;
    // Called when a range was stored at all of them; may be empty.
    std::function<void(int rank, ChunkRange range)> stored = {};
  };
  // Ends after reduce_scatter(): lane x stores piece x where it belongs.
  void store(const HeldByRank& held, const Finish& finish);
  // P - 1 steps after which every lane has stored every piece; lane x starts with piece x, made from held[rank].
  void all_gather(const HeldByRank& held, const Finish& finish);

 private:
  int size() const { return static_cast<int>(shape_.lanes.size()); }
  int next(int x) const { return (x + 1) % size(); }
  int piece_chunks() const { return shape_.parts * shape_.part_chunks; }
  ChunkRange range(int piece, int part) const;
  // Does the last phase use scratch to pass pieces to lane x?
  bool lands_in_scratch(int x) const;
  void await(int x, int part);
  // Stores what lies at the sources and, but in the last step, passes it on.
  void spread(int x, int step, int part, const std::vector<Place>& sources, const Finish& finish);

  PlanBuilder& builder_;
  Carrier& carrier_;
  Shape shape_;
  std::vector<Place> landing_;  // of each lane
  int steps_done_ = 0;          // for the number of the landing place
  // [lane][part]
  std::vector<std::vector<std::optional<Arrival>>> arrivals_, next_arrivals_;
};

}  // namespace plait
