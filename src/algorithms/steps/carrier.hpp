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

// Between nodes a rank gets two network queues, one that sends and one that receives: with a single queue a ring of
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
  Arrival push(QueueId from, const std::vector<Place>& sources, const std::vector<Place>& kept, QueueId to,
               Place landing, ChunkRange range);

  // Lets `to` read what `from` has at `source`; between nodes it comes to `landing`, or to scratch where none is given.
  Arrival offer(QueueId from, Place source, QueueId to, ChunkRange range, std::optional<Place> landing = {});

  // The same in three, for many messages at once between nodes: what `from` has done so far may be sent; it is sent,
  // without a word to either queue; and `to` hears that all has come that was sent to it so far.
  void release(QueueId from);
  void carry(QueueId from, Place source, QueueId to, Place landing, ChunkRange range);
  SignalId announce(QueueId to);

  // Tells `to` that everything `from` did so far is over: a signal, or between nodes of a barrier a message of nothing.
  SignalId tell(QueueId from, QueueId to);

  // Everybody has come this far before anybody goes on, among any list of ranks: in step k every member tells the one
  // 2^k after it, and hears of the one as far before it, so that it has heard of 2^k - 1 others. Steps: ceil(log2 n).
  void disseminate(const std::vector<QueueId>& queues);

  // Makes the receiver wait here.
  void await(const Arrival& arrival) { builder_.wait(arrival.signal); }

 private:
  struct NetQueues {
    std::optional<QueueId> out, in;
  };
  QueueId out_queue(int rank);
  QueueId in_queue(int rank);
  // The message itself: handed to the network by `from`, announced to `to` on arrival.
  Arrival send(QueueId from, Place source, QueueId to, Place landing, ChunkRange range);

  PlanBuilder& builder_;
  const std::vector<int>& node_of_;
  std::vector<NetQueues> net_queues_;
};

}  // namespace plait
