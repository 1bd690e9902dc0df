// Recursive halving and recursive doubling over any list of ranks: the two phases of Rabenseifner's algorithm.
#pragma once

#include <unordered_map>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/steps/carrier.hpp"
#include "algorithms/steps/held.hpp"

namespace plait {

// The factors of the core of `queues` queues, which are 2 x 2 x … if none are given. Their product c has to leave no
// more extra queues than there are in the core: c <= queues < 2 c. Empty if it does not.
std::vector<int> core_factors(const std::vector<int>& given, int queues);

// P queues halve a message in rounds. In each round, the f members of a group share out what they are all responsible
// for. A member gives away f - 1 parts of it and gets as many contributions to its own. A core of c = f1 x f2 x … of
// the queues takes part. The P - c extra queues are the right neighbours of the first ones of the core. They give all
// that they have to their neighbour first (fold-in), and get the result from it in the end (fold-out). Six queues, a
// core of 2 x 2, far first:
//
//     q0 <--- q1        q0 <--> q4        q0 <--> q2        then the same backwards, with finished pieces
//     q2 <--- q3        q2 <--> q5        q4 <--> q5
//      fold-in          half each         a quarter each
//
// A member's position is the place of its pieces in the message: far first they lie in the order of the queues, near
// first in the order of reversed digits (UEN-13). So a member always gives and gets neighbouring pieces, in one
// operation. No sum is stored only to be loaded again: the next reduce reads all its terms.
class HalvingSteps {
 public:
  struct Shape {
    std::vector<QueueId> queues;
    std::vector<int> factors;  // of the core, from core_factors()
    Order order = Order::kFarFirst;
    int first_chunk = 0;  // of the message
    int piece_chunks = 1;
    bool extras_have_pieces = true;  // P pieces, one for every queue; else c, for the core only
    bool stores_to_peers = false;    // all_gather() may store to other ranks' outputs (Access::kZeroCopy)
    // all_gather(): the first queue's rank has all pieces from the beginning, wherever it wants them. It only gives.
    bool first_has_all = false;
  };

  HalvingSteps(PlanBuilder& builder, Carrier& carrier, Shape shape);

  // The piece that queue x has after reduce_scatter(), and that all_gather() starts with. Far first it is the x-th one
  // of P. It has no chunks where the queue has no piece.
  ChunkRange piece_of(int x) const;

  // After this, held[rank] has all contributions to the queue's own piece. The last ones are not yet awaited.
  // Steps: one a factor, and with extra queues one for the fold-in and one for their pieces.
  void reduce_scatter(HeldByRank& held);
  // Awaits what reduce_scatter() has under way.
  void settle();
  // Ends after reduce_scatter(): every queue stores its piece where it belongs.
  void store(const HeldByRank& held, const Finish& finish);
  // Every queue makes its piece from held[rank], and stores all pieces. Steps: as many as reduce_scatter().
  void all_gather(const HeldByRank& held, const Finish& finish);
  // A step before all_gather(), if no reduce_scatter() came before it and it stores to peers: all that get anything say
  // that they were called.
  void call_peers();

 private:
  struct Round {
    int factor, stride;  // of the core
  };
  // Data at a place or, if it has yet to be combined, at several.
  struct Segment {
    std::vector<Place> sources;
    ChunkRange range;
  };

  bool has_all(int member) const { return shape_.first_has_all && member == 0; }
  // Whether it lies where the rank stores it anyway.
  bool is_home(const Segment& segment, int rank) const {
    return segment.sources.size() == 1 && segment.sources[0] == homes_.at(rank).at(segment.range.first);
  }

  int size() const { return static_cast<int>(shape_.queues.size()); }
  int extras() const { return size() - core_; }
  bool has_extra(int member) const { return member < extras(); }
  // Members of the core, and the extra queues of the first ones, in the order of the queues.
  QueueId queue(int member) const { return shape_.queues[has_extra(member) ? 2 * member : member + extras()]; }
  QueueId extra(int member) const { return shape_.queues[2 * member + 1]; }
  int position(int member) const;
  ChunkRange range(int first_position, int positions) const;
  ChunkRange own_piece(int member) const;
  ChunkRange extra_piece(int member) const;
  // The `count` positions among which that of `member` is.
  ChunkRange around(int member, int count) const;
  std::vector<int> peers(int member, const Round& round) const;
  std::vector<int> takers_from(int member, const Round& round) const;
  // The place at `to` for what it will get: its output, or scratch from which it copies.
  Held landing(QueueId from, QueueId to, ChunkRange range);
  void await(QueueId queue);

  void fold_in(HeldByRank& held);
  void halve(const Round& round, int count, HeldByRank& held);
  void hand_out_extra_pieces(HeldByRank& held);

  void begin_gathering(int member, const HeldByRank& held, const Finish& finish);
  void double_up(const Round& round, int count, const Finish& finish);
  std::vector<Segment> segments(int member, ChunkRange all) const;
  void fold_out(int member, const Finish& finish);
  void keep(QueueId queue, const Segment& segment, const Finish& finish);

  PlanBuilder& builder_;
  Carrier& carrier_;
  const Shape shape_;
  std::vector<Round> rounds_;  // of the reduce-scatter
  int core_ = 1;
  std::unordered_map<int, Held> homes_;          // of each rank: where it stores the result first of all
  std::vector<int> first_piece_;                 // at each position, and behind the last one
  std::vector<std::vector<SignalId>> arrivals_;  // of each rank, not yet awaited
  std::vector<std::vector<Segment>> fresh_;      // of each member: what it has to store and to pass on
};

// Halving over a range, with an equal piece for each queue, far first.
HalvingSteps::Shape halving_over(const std::vector<QueueId>& queues, ChunkRange range, bool stores_to_peers);

}  // namespace plait
