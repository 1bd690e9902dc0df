// Moves chunks between ranks: by load, store and signal within a node, by messages between nodes.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "plan/builder.hpp"
#include "topology/paths.hpp"

namespace plait {

// A chunk that `signal.to` can read at `place` once it has waited for the signal.
struct Arrival {
  Place place;
  SignalId signal;
};

// The way of data within a node where it does not go straight into the receiver's memory.
struct Detour {
  PathKind kind = PathKind::kDirect;            // kHost: by way of host memory next to the sender
  std::map<std::pair<int, int>, int> via = {};  // kRelay, of [sender, receiver]: the rank through whose scratch it goes
  Engine engine = Engine::kCpu;                 // of queues that relay
  // kHost: whether there is such a path between two ranks of a node; empty: between all.
  std::function<bool(int from, int to)> among = {};
  Buffer landings = Buffer::kScratch;  // of messages between nodes: at the receiver, and at the sender where they leave
};

// Between nodes a rank gets two network queues, one that sends and one that receives. With a single queue, if
// transports wait for the receiver, the ranks of a ring would run one after the other. Every message is added to both
// sides at once, so the order in which algorithms make messages is an order in which they can happen.
class Carrier {
 public:
  // Both arguments must outlive the carrier. An empty `node_of` means one node.
  Carrier(PlanBuilder& builder, const std::vector<int>& node_of, Detour detour = {});

  // True if the two ranks are on one node: one can load, store and signal to the other.
  bool together(int a, int b) const { return node_of_.empty() || node_of_[a] == node_of_[b]; }

  // Whether data goes from one to the other by way of host memory.
  bool by_host(int from, int to) const;

  // Takes a landing place for put(): neighbouring slots at the receiver or, by way of host memory in a node, at the
  // sender.
  Place take_landing(int from, int to, int count);

  // `from` combines the sources, and stores the result at `landing`, a place that `to` can read, and at `kept`, places
  // on its own node. Between nodes the result leaves from the only source, or from the first kept place, which must be
  // the rank's own, or from slots of its own.
  Arrival put(QueueId from, const std::vector<Place>& sources, const std::vector<Place>& kept, QueueId to,
              Place landing, ChunkRange range);

  // Lets `to` read what `from` has at `source`. Between nodes it is sent to `landing`, or to slots of its own
  // if none is given.
  Arrival expose(QueueId from, Place source, QueueId to, ChunkRange range, std::optional<Place> landing = {});

  // These are the three parts of expose(), for many messages at once between nodes. release() lets the network send
  // what `from` has done so far. carry() sends it, without a signal to either queue. announce() tells `to` that all has
  // come that was sent to it so far.
  void release(QueueId from);
  void carry(QueueId from, Place source, QueueId to, Place landing, ChunkRange range);
  SignalId announce(QueueId to);

  // Tells `to` that everything `from` has done so far is over, by a signal, or between nodes of a barrier by an empty
  // message.
  SignalId tell(QueueId from, QueueId to);

  // A barrier among any list of ranks. In step k every member signals the one 2^k after it, and waits for the one 2^k
  // before it, so that it has heard of 2^k - 1 others. Steps: ceil(log2 n).
  void disseminate(const std::vector<QueueId>& queues);

  // Makes the receiver wait here.
  void await(const Arrival& arrival) { builder_.wait(arrival.signal); }

 private:
  struct NetQueues {
    std::optional<QueueId> out, in;
  };
  // The queue that passes on data from one rank to another, at the rank between them.
  QueueId relay_queue(int rank, int from, int to);
  QueueId out_queue(int rank);
  QueueId in_queue(int rank);
  // Slots for what passes between nodes.
  Place take_slots(int rank, int count);
  // Within a node: `from` stores what it combines. By way of another rank, that one stores it at the landing place.
  Arrival store(QueueId from, const std::vector<Place>& sources, const std::vector<Place>& kept, QueueId to,
                Place landing, ChunkRange range);
  // Sends the message: `from` releases it to the network, and its arrival is announced to `to`.
  Arrival send(QueueId from, Place source, QueueId to, Place landing, ChunkRange range);

  PlanBuilder& builder_;
  const std::vector<int>& node_of_;
  const Detour detour_;
  std::vector<NetQueues> net_queues_;
  std::map<std::pair<int, int>, QueueId> relay_queues_;  // of [sender, receiver]
};

}  // namespace plait
