// The two phases of an exchange of every member with every other. `flat` consists of them, and so may a level of a
// hierarchy.
#pragma once

#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/steps/held.hpp"
#include "algorithms/steps/signals.hpp"

namespace plait {

// Every member of a list owns one piece of the message. All can load from and store to each other. Piece 0 of four:
//
//     reduce_scatter(): m1, m2, m3 --> m0 combines        all_gather(): m0 --> m1, m2, m3       (all pieces at once)
//
// By load, a member puts the pieces of others into its own scratch, and they fetch them there. By store, a member puts
// them into the scratch of their owners, who then load from their own memory only. A store over a link is posted and
// needs no answer, while a load waits for one and costs the other direction of the link as well. Every slot is written
// once, by one member, so that a small message can carry its flags inside the data instead of signals
// (runtime/cuda/device/ll.cuh).
//
// Steps: one a phase. Bytes: in each phase a member gives and receives all pieces but its own.
// Scratch, in pieces: by load P for reduce_scatter(), of which the unused one serves all_gather(), which takes one by
//   itself; by store P-1 for each phase.
class PieceExchange {
 public:
  struct Shape {
    int first_chunk = 0;                     // of the message that is exchanged
    int piece_chunks = 1;                    // member x looks after the x-th piece
    Direction direction = Direction::kLoad;  // or kStore
    bool scatters = true;                    // reduce_scatter() will be called
    bool gathers = true;                     // all_gather() will be called
  };

  // The stages have queues of the members, on ranks of one node. They must outlive the exchange.
  PieceExchange(PlanBuilder& builder, Stages& stages, Shape shape);

  // After this, held[rank] has the places of all contributions to the member's own piece, in the order of the members.
  // They are not yet awaited.
  void reduce_scatter(HeldByRank& held);
  // Ends after reduce_scatter(): member x stores piece x where it belongs.
  void store(const HeldByRank& held, const Finish& finish);
  // Member x combines piece x from held[rank], and stores it where it belongs and where the others get it.
  void share(const HeldByRank& held, const Finish& finish);
  // The others store it, too.
  void collect(const Finish& finish);
  void all_gather(const HeldByRank& held, const Finish& finish) {
    share(held, finish);
    collect(finish);
  }

  // By load: the scratch of member x from which all get its piece.
  Held shared(int x) const { return shared_[x]; }
  // Waits for what reduce_scatter() has under way to member x, unless it was awaited before.
  void await(int x);

 private:
  int size() const { return stages_.members(); }
  int rank(int x) { return stages_.queue(x, 0).rank; }
  bool by_store() const { return shape_.direction == Direction::kStore; }
  ChunkRange piece(int x) const { return {shape_.first_chunk + x * shape_.piece_chunks, shape_.piece_chunks}; }
  std::vector<std::vector<Held>> take_inboxes();
  void publish_all_but_own(int x, const std::vector<Held>& held);
  void store_at_others(int x, const std::vector<Held>& held);

  PlanBuilder& builder_;
  Stages& stages_;
  const Shape shape_;
  int steps_ = 0;  // steps that members have made
  // By load: what a member publishes, and the place from which its own piece is shared. By store: [to][from]; own
  // entries are not used.
  std::vector<Held> published_, shared_;
  std::vector<std::vector<Held>> inboxes_, results_;
  SignalTable arrivals_, shares_;
  std::vector<bool> is_awaited_;  // of each member: whether the arrivals of reduce_scatter() were awaited
};

// An all-reduce of the whole message, whose chunks are pieces of the members. It goes in parts: each part is published
// before the one before it is reduced (TEM-18). By store there is one part.
void exchange_all_reduce(PlanBuilder& builder, Stages& stages, Direction direction, int parts);

// The same if every member can access every buffer: each makes one reduce {all outputs} <- {all inputs}, between two
// rounds of signals. No scratch, no copies.
void zero_copy_all_reduce(PlanBuilder& builder, const std::vector<QueueId>& queues);

// All inputs in the order of the members; all outputs, beginning with that of member x.
std::vector<Place> inputs_of(const std::vector<QueueId>& queues);
std::vector<Place> outputs_from(const std::vector<QueueId>& queues, int x);

}  // namespace plait
