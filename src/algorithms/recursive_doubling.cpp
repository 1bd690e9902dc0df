// Recursive doubling: whole messages between partners at distances 1, 2, 4, … (NVG-11).
#include <bit>
#include <utility>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/carrier.hpp"

namespace plait {

Algorithm recursive_doubling();

namespace {

// Partners exchange what they have, and both combine it, so that after k steps every rank has the sum of 2^k ranks.
// With p = 2^k + m, the last m ranks first pass their input to rank - 2^k, and get the result back at the end. Six
// ranks (k = 2, m = 2):
//
//     r0 <------- r4       r0 <--> r1       r0 <--> r2       r0 -------> r4
//     r1 <------- r5       r2 <--> r3       r1 <--> r3       r1 -------> r5
//        reduce in            distance 1       distance 2         reduce out
//
// Both partners combine the part of the lower ranks first, so both get the same bits.
//
// Steps: k; 1 more if m > 0, and 2 more if m > 2^(k-1) (else no path leads from one of the last m ranks to another
//   through all distances). A barrier, which moves nothing, uses dissemination instead: ceil(log2 p).
// Bytes read per rank from others: k M; the partners of the last m ranks one M more, and those one M at the end.
// Scratch slots, each M: k for what a rank publishes (the last m ranks: 1), one more for a result to be passed on in a
//   staged plan, and one for each message that arrives from another node.
// When: small and medium messages over many ranks, several nodes.
class RecursiveDoubling {
 public:
  explicit RecursiveDoubling(const AlgorithmArguments& arguments)
      : arguments_(arguments),
        builder_(start_plan(recursive_doubling(), arguments, 1)),
        carrier_(builder_, arguments.node_of),
        queues_(add_queues(builder_, arguments)),
        core_(static_cast<int>(std::bit_floor(static_cast<unsigned>(arguments.ranks)))) {}

  Plan all_reduce() {
    if (arguments_.ranks == 1) {
      builder_.copy(queues_[0], output_of(0), input_of(0), 0);
      return builder_.finish();
    }
    reduce_in();
    for (int distance = 1; distance < core_; distance *= 2) exchange(distance);
    reduce_out();
    return builder_.finish();
  }

  Plan barrier() {
    carrier_.disseminate(queues_);
    return builder_.finish();
  }

 private:
  static constexpr ChunkRange kWhole = {0, 1};

  // Whether this rank of the core stands in for one of the last m ranks.
  bool has_extra(int rank) const { return rank + core_ < arguments_.ranks; }

  void reduce_in() {
    for (int rank = 0; rank < core_; ++rank) {
      std::vector<Place> sources = {input_of(rank)};
      if (has_extra(rank)) {
        const int extra = rank + core_;
        Place published = input_of(extra);
        if (carrier_.together(extra, rank)) {
          published = builder_.take_scratch(extra);
          builder_.copy(queues_[extra], published, input_of(extra), 0);
        }
        const Arrival arrival = carrier_.offer(queues_[extra], published, queues_[rank], kWhole);
        carrier_.await(arrival);
        sources.push_back(arrival.place);
      }
      sums_.push_back(builder_.take_scratch(rank));
      builder_.reduce(queues_[rank], {sums_[rank]}, sources, 0);
    }
  }

  void exchange(int distance) {
    std::vector<Arrival> arrivals;  // at the partner of each rank
    for (int rank = 0; rank < core_; ++rank) {
      arrivals.push_back(carrier_.offer(queues_[rank], sums_[rank], queues_[rank ^ distance], kWhole));
    }
    for (int rank = 0; rank < core_; ++rank) {
      const int partner = rank ^ distance;
      const Place theirs = arrivals[partner].place;
      carrier_.await(arrivals[partner]);
      const bool lower = rank < partner;
      const std::vector<Place> sources = {lower ? sums_[rank] : theirs, lower ? theirs : sums_[rank]};
      // It must not use the same slot: the partner may still read it.
      builder_.reduce(queues_[rank], 2 * distance < core_ ? next_sum(rank) : results(rank), sources, 0);
    }
    std::swap(sums_, next_sums_);
    next_sums_.clear();
  }

  std::vector<Place> next_sum(int rank) {
    next_sums_.push_back(builder_.take_scratch(rank));
    return {next_sums_.back()};
  }

  // The places that get the finished reduction. An extra rank's output may be stored to, because that rank has
  // signalled that it was called.
  std::vector<Place> results(int rank) {
    std::vector<Place> places = {output_of(rank)};
    handed_on_.push_back(output_of(rank));
    const int extra = rank + core_;
    if (!has_extra(rank) || !carrier_.together(rank, extra)) return places;
    handed_on_.back() = arguments_.access == Access::kZeroCopy ? output_of(extra) : builder_.take_scratch(rank);
    places.push_back(handed_on_.back());
    return places;
  }

  void reduce_out() {
    for (int extra = core_; extra < arguments_.ranks; ++extra) {
      const int rank = extra - core_;
      const Arrival arrival = carrier_.offer(queues_[rank], handed_on_[rank], queues_[extra], kWhole, output_of(extra));
      carrier_.await(arrival);
      if (arrival.place != output_of(extra)) builder_.copy(queues_[extra], output_of(extra), arrival.place, 0);
    }
  }

  const AlgorithmArguments& arguments_;
  PlanBuilder builder_;
  Carrier carrier_;
  std::vector<QueueId> queues_;
  const int core_;                       // 2^k
  std::vector<Place> sums_, next_sums_;  // the result, for the rank that this one stands in for
  std::vector<Place> handed_on_;         // the result, for the rank that this one stands in for
};

Plan make_recursive_doubling(const AlgorithmArguments& arguments) {
  check_arguments(recursive_doubling(), arguments);
  const bool is_barrier = arguments.collective == Collective::kBarrier;
  return is_barrier ? RecursiveDoubling(arguments).barrier() : RecursiveDoubling(arguments).all_reduce();
}

std::vector<AlgorithmArguments> recursive_doubling_candidates(const AlgorithmArguments& machine) {
  if (machine.collective == Collective::kBarrier && machine.access == Access::kZeroCopy) return {};
  return with_parts(machine, {1});
}

}  // namespace

Algorithm recursive_doubling() {
  return {.name = "recursive_doubling",
          .summary = "partners at distances 1, 2, 4, … exchange whole messages; log2 p steps",
          .source = "NVG-11, NVG-64",
          .collectives = {Collective::kAllReduce, Collective::kBarrier},
          .uses = {.zero_copy = true},
          .make = make_recursive_doubling,
          .candidates = recursive_doubling_candidates};
}

}  // namespace plait
