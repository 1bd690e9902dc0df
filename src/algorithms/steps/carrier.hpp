// Moves chunks between ranks: by load, store and signal within a node, by messages between nodes.
#pragma once

#include <optional>
#include <vector>

#include "plan/builder.hpp"

namespace plait {

// A chunk that `signal.to` can read at `place` once it has waited for the signal.
struct Arrival {
  Place place;
  SignalId signal;
};

// Between nodes a rank gets two network lanes, one that sends and one that receives: with a single lane a ring of
// transports that wait for the receiver would run one rank after the other. Every message is written down on both
// sides at once, so the order in which algorithms make them is an order in which they can happen.
class Carrier {
 public:
  // Both must outlive the carrier. An empty `node_of` means one node.
  Carrier(PlanBuilder& builder, const std::vector<int>& node_of);

  // True where load, store and signals reach from one rank to the other.
  bool together(int a, int b) const { return node_of_.empty() || node_of_[a] == node_of_[b]; }

  // `from` combines the sources and stores the result at `landing`, a place of the rank of `to`, and at `kept`, places
  // within its own reach. Between nodes the result leaves from the only source or from the first kept place, which
  // must be its own, or passes a scratch place of its own.
  Arrival push(LaneId from, const std::vector<Place>& sources, const std::vector<Place>& kept, LaneId to, Place landing,
               ChunkRange range);

  // Lets `to` read what `from` has at `source`; between nodes it comes to `landing`, or to scratch where none is given.
  Arrival offer(LaneId from, Place source, LaneId to, ChunkRange range, std::optional<Place> landing = {});

  // Makes the receiver wait here.
  void await(const Arrival& arrival) { builder_.wait(arrival.signal); }

 private:
  struct NetLanes {
    std::optional<LaneId> out, in;
  };
  LaneId out_lane(int rank);
  LaneId in_lane(int rank);
  // The message itself: handed to the network by `from`, announced to `to` on arrival.
  Arrival send(LaneId from, Place source, LaneId to, Place landing, ChunkRange range);

  PlanBuilder& builder_;
  const std::vector<int>& node_of_;
  std::vector<NetLanes> net_lanes_;
};

}  // namespace plait
