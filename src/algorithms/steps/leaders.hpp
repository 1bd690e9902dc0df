// An exchange in which some members lead: each of them combines a piece for all. `three_stage` and levels of
// hierarchies consist of it.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/steps/carrier.hpp"
#include "algorithms/steps/held.hpp"

namespace plait {

// The first k members of a list lead. Every leader combines one of k equal pieces of the message, from the data of all
// members, and gives them the result. k = 1 and k = 2 of three:
//
//     m1 --.             .--> m1        m1 --half 0--> m0      m0 --half 0--> m1, m2
//           >--> m0 --- <               m2 --half 0--> m0
//     m2 --'             '--> m2        m0 --half 1--> m1      m1 --half 1--> m0, m2
//                                       m2 --half 1--> m1
//     reduce_scatter()  all_gather()    reduce_scatter()       all_gather()
//
// If all lead, everybody deals with everybody, as PieceExchange does within one node. By load, a member publishes its
// data in its own scratch, and the leaders fetch their pieces there; results go the same way back. By store, the data
// lands in scratch of whoever needs it or, where the carrier goes by way of the host, in host memory next to whoever
// stores. Between nodes there are messages.
//
// Zero-copy by load, leaders read inputs where they are, and store to the outputs of all members. Members that do not
// lead then only signal and wait.
//
// Steps: one a phase. Bytes: in each phase a leader receives, or gives, its piece once for each other member.
// Scratch, in pieces: by load k for a member; by store k for a member and n-1 more for a leader. A leader has one more
//   for each member on another node.
class LeaderSteps {
 public:
  struct Shape {
    std::vector<QueueId> queues;  // of the members, leaders first
    ChunkRange range;             // of the message, a multiple of k chunks
    int leaders = 1;
    Direction direction = Direction::kLoad;
    bool reads_inputs = false;     // by load: leaders read inputs where they are
    bool stores_to_peers = false;  // leaders store to the outputs of all members
  };

  LeaderSteps(PlanBuilder& builder, Carrier& carrier, Shape shape);

  // The piece of a leader; empty for other members.
  ChunkRange piece(int x) const;
  // Afterwards held[rank] has the places of all contributions to a leader's piece, in the order of the members.
  void reduce_scatter(HeldByRank& held);
  void settle();
  // Ends after reduce_scatter(): leaders store their pieces where they belong.
  void store(const HeldByRank& held, const Finish& finish);
  // Leaders combine their pieces from held[rank]; all members store all.
  void all_gather(const HeldByRank& held, const Finish& finish);

  // The two halves of all_gather() for a leader's piece that somebody else combines: where to store it, and, once that
  // is done, the others' part.
  Finish ahead(const Finish& finish);
  void follow(const Finish& finish);

 private:
  struct Given {  // a finished range, on its way from a leader to a member
    ChunkRange range;
    Arrival arrival;
  };

  int size() const { return static_cast<int>(shape_.queues.size()); }
  int rank(int x) const { return shape_.queues[x].rank; }
  int member_of(int rank) const { return member_of_rank_.at(rank); }
  bool near(int x, int y) const { return carrier_.together(rank(x), rank(y)); }
  bool by_store() const { return shape_.direction == Direction::kStore; }
  bool leads(int x) const { return x < shape_.leaders; }
  // The place of scratch at the member: by load what it publishes, by store what it gets; slot = chunk of the range.
  Held box(int x);
  // By store: what the leader stores in host memory, for all members to which data goes by way of it.
  Held host_box(int leader);
  Held published(int x, const std::vector<Held>& held);
  void hand_to_leaders(int x, const std::vector<Held>& held);
  // Whether leaders store straight to the members' outputs.
  bool stores_to_outputs(const Finish& finish, int leader, int member) const;
  void hand_back(const Finish& finish, int leader, ChunkRange range);
  void tell_members(const Finish& finish);

  PlanBuilder& builder_;
  Carrier& carrier_;
  const Shape shape_;
  std::unordered_map<int, int> member_of_rank_;
  std::vector<std::optional<Held>> boxes_, host_boxes_;
  std::vector<std::vector<std::optional<Arrival>>> arrivals_;  // [leader][member]
  std::vector<std::vector<std::vector<Given>>> given_;         // [member][leader]
};

}  // namespace plait
