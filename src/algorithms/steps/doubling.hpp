// Recursive doubling of whole messages over any list of ranks. The algorithm recursive_doubling consists of it.
#pragma once

#include <vector>

#include "algorithms/steps/carrier.hpp"
#include "algorithms/steps/held.hpp"

namespace plait {

// P queues combine a range of the message. Partners exchange what they have, and both combine it, so that after k steps
// every queue has the sum of 2^k. With P = 2^k + m, the last m queues first pass their data to the queue that is 2^k
// before them, and get the result back at the end. Six queues (k = 2, m = 2):
//
//     q0 <------- q4       q0 <--> q1       q0 <--> q2       q0 -------> q4
//     q1 <------- q5       q2 <--> q3       q1 <--> q3       q1 -------> q5
//        reduce in            distance 1       distance 2         reduce out
//
// Both partners combine the part of the queues before the others first, so both get the same bits.
//
// Steps: k; 1 more if m > 0, and 2 more if m > 2^(k-1) (else no path leads from one of the last m queues to another
//   through all distances).
// Slots in scratch or host memory, for each chunk: k for what a queue publishes (the last m: 1), one less where its
//   data is published already; one more for a result to be passed on in a staged plan, and one for each message that
//   arrives from another node.
class DoublingSteps {
 public:
  struct Shape {
    std::vector<QueueId> queues;
    ChunkRange range = {0, 1};
    bool stores_to_peers = false;  // to the outputs of the last m queues (Access::kZeroCopy)
    Buffer slots = Buffer::kScratch;
    bool is_published = false;  // the data of each rank lies in one place, which partners read
  };

  DoublingSteps(PlanBuilder& builder, Carrier& carrier, Shape shape);

  // Combines the data of all queues, held[rank], and stores it where every rank wants it.
  void all_reduce(const HeldByRank& held, const Finish& finish);

 private:
  int size() const { return static_cast<int>(shape_.queues.size()); }
  // Whether this queue of the first 2^k stands in for one of the last m.
  bool has_extra(int x) const { return x + core_ < size(); }
  bool together(int x, int y) const { return carrier_.together(shape_.queues[x].rank, shape_.queues[y].rank); }
  // The place where the queue's rank wants the result first of all.
  Place own(int x, const Finish& finish) const {
    return finish.places(shape_.queues[x].rank)[0].at(shape_.range.first);
  }
  Place take_slots(int x) {
    const int rank = shape_.queues[x].rank, count = shape_.range.count;
    return shape_.slots == Buffer::kHost ? builder_.take_host(rank, count) : builder_.take_scratch(rank, count);
  }
  void reduce(int x, const std::vector<Place>& places, const std::vector<Place>& sources);
  std::vector<Place> data_of(int x, const HeldByRank& held) const {
    return places_at(held[shape_.queues[x].rank], shape_.range.first);
  }

  // Combines what a queue has, unless it is published as it is.
  Place publish(int x, const std::vector<Place>& sources);
  void reduce_in(const HeldByRank& held);
  void exchange(int distance, const Finish& finish);
  std::vector<Place> next_sum(int x);
  std::vector<Place> results(int x, const Finish& finish);
  void reduce_out(const Finish& finish);

  PlanBuilder& builder_;
  Carrier& carrier_;
  const Shape shape_;
  const int core_;                       // 2^k
  std::vector<Place> sums_, next_sums_;  // of the first 2^k queues
  std::vector<Place> handed_on_;         // the result, for the queue that this one stands in for
};

}  // namespace plait
