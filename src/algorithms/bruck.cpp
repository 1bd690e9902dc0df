// Bruck's concatenation, and its reverse: few steps and least bytes, over any number of ranks.
#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/carrier.hpp"

namespace plait {

Algorithm bruck();

namespace {

// all_gather: after k steps a rank has the blocks of the 2^k ranks from itself on. In the next step it gets those of
// the rank 2^k after it, as far as they are new (Bruck et al. 1997). Six ranks, and what rank 0 has and gets:
//
//     0 | 1 <- r1 | 2 3 <- r2 | 4 5 <- r4          reduce_scatter: the same backwards. Rank 0 has input for all blocks:
//                                                  4 5 -> r4 | 2 3 -> r2 | 1 -> r1, each with all that came for it
//                                                  before; block 0 stays (Träff 2024: circulant graphs).
//
// all_reduce is a reduce_scatter followed by an all_gather. Blocks wrap around at rank p-1, where a range of them
// becomes two.
//
// By load, a rank fetches blocks out of the scratch of the rank that has them. By store, the rank that has them stores
// them in the scratch of the rank that needs them. Reductions are left to the reduce that needs them: a rank combines
// what came for a block when it passes the block on.
//
// Steps: ceil(log2 p), all_reduce twice that. Bytes: p-1 blocks in and out of every rank, all_reduce twice that.
// Scratch slots of a block: all_gather p, by load without those of the last step; reduce_scatter p-1, and p-1 more if
//   blocks go to another node.
// When: small and medium messages over many ranks, of any number; several nodes.
class Bruck {
 public:
  explicit Bruck(const AlgorithmArguments& arguments)
      : ranks_(arguments.ranks),
        by_store_(arguments.direction == Direction::kStore),
        builder_(start_plan(bruck(), arguments, arguments.collective == Collective::kAllReduce ? arguments.ranks : 1)),
        carrier_(builder_, arguments.node_of),
        queues_(add_queues(builder_, arguments)),
        came_(ranks_) {}

  Plan make(Collective collective) {
    if (collective != Collective::kAllGather) reduce_scatter();
    if (collective == Collective::kReduceScatter) {
      for (int rank = 0; rank < ranks_; ++rank) reduce_own(rank, {output_of(rank)});
    } else {
      all_gather();
    }
    return builder_.finish();
  }

 private:
  // Blocks by their distance from the rank that they are counted from: [first, first + count), never around the end.
  struct Span {
    int first = 0, count = 0;
  };
  // Blocks that came for a rank, at neighbouring slots of some rank's scratch.
  struct Came {
    Span span;
    Place place;
  };

  int after(int rank, int distance) const { return (rank + distance) % ranks_; }
  ChunkRange chunks(int rank, Span span) const { return {after(rank, span.first), span.count}; }
  int last_distance() const { return ranks_ == 1 ? 0 : static_cast<int>(std::bit_floor(unsigned(ranks_ - 1))); }

  // Splits `span`, counted from `rank`, into parts that are ranges of the message. No part crosses one of the borders.
  std::vector<Span> parts_of(int rank, Span span, std::vector<int> borders = {}) const {
    borders.push_back(ranks_ - rank);  // numbers begin anew here
    std::sort(borders.begin(), borders.end());
    std::vector<Span> parts;
    for (const int border : borders) {
      if (border <= span.first || border >= span.first + span.count) continue;
      parts.push_back({span.first, border - span.first});
      span = {border, span.first + span.count - border};
    }
    parts.push_back(span);
    return parts;
  }

  // --- all_gather ---

  void all_gather() {
    const int last = last_distance();
    for (int rank = 0; rank < ranks_; ++rank) {
      // Slot i holds the block i after the rank's own.
      const int slots = by_store_ ? ranks_ : std::max(last, 1);
      blocks_.push_back(ranks_ == 1 ? output_of(rank) : builder_.take_scratch(rank, slots));
      reduce_own(rank, ranks_ == 1 ? std::vector{output_of(rank)} : std::vector{output_of(rank), blocks_[rank]});
    }
    for (int distance = 1; distance < ranks_; distance *= 2) {
      std::vector<std::vector<Arrival>> arrivals;
      for (int rank = 0; rank < ranks_; ++rank) arrivals.push_back(expose(after(rank, distance), rank, distance));
      for (int rank = 0; rank < ranks_; ++rank) {
        for (const Arrival& arrival : arrivals[rank]) carrier_.await(arrival);
        keep(rank, distance, arrivals[rank]);
      }
    }
  }

  Span new_blocks(int distance) const { return {distance, std::min(distance, ranks_ - distance)}; }
  // Whether a block needs a place because it is to be passed on. Blocks that come in the last step are not.
  bool passes_on(int distance) const { return distance < last_distance(); }

  // `from` exposes, or puts, what it has to `to`: one arrival for each part of the new blocks.
  std::vector<Arrival> expose(int from, int to, int distance) {
    std::vector<Arrival> arrivals;
    for (const Span& part : parts_of(to, new_blocks(distance))) {
      const Place source = slot_after(blocks_[from], part.first - distance);
      const ChunkRange range = chunks(to, part);
      if (carrier_.together(from, to) && by_store_) {
        const Place landing = slot_after(blocks_[to], part.first);
        arrivals.push_back(carrier_.put(queues_[from], {source}, {}, queues_[to], landing, range));
      } else {
        const Place landing = passes_on(distance) ? slot_after(blocks_[to], part.first) : output_of(to);
        arrivals.push_back(carrier_.expose(queues_[from], source, queues_[to], range, landing));
      }
    }
    return arrivals;
  }

  void keep(int rank, int distance, const std::vector<Arrival>& arrivals) {
    const std::vector<Span> parts = parts_of(rank, new_blocks(distance));
    for (size_t i = 0; i < parts.size(); ++i) {
      const Place from = arrivals[i].place, mine = slot_after(blocks_[rank], parts[i].first);
      if (from == output_of(rank)) continue;
      std::vector<Place> places = {output_of(rank)};
      if (passes_on(distance) && from != mine) places.push_back(mine);
      const ChunkRange range = chunks(rank, parts[i]);
      builder_.reduce(queues_[rank], places, {from}, range.first, range.count);
    }
  }

  // --- reduce_scatter ---

  void reduce_scatter() {
    for (int distance = last_distance(); distance > 0; distance /= 2) {
      std::vector<std::vector<Came>> news(ranks_);
      std::vector<std::vector<Arrival>> arrivals(ranks_);
      for (int rank = 0; rank < ranks_; ++rank) pass_on(rank, distance, news, arrivals);
      for (int rank = 0; rank < ranks_; ++rank) {
        for (const Arrival& arrival : arrivals[rank]) carrier_.await(arrival);
        came_[rank].insert(came_[rank].end(), news[rank].begin(), news[rank].end());
      }
    }
  }

  // Blocks [distance, 2 distance) after `rank` go to the rank that is `distance` after it. They are the first ones
  // there.
  void pass_on(int rank, int distance, std::vector<std::vector<Came>>& news,
               std::vector<std::vector<Arrival>>& arrivals) {
    const int to = after(rank, distance);
    const bool near = carrier_.together(rank, to);
    const Span all = new_blocks(distance);
    const Place landing = builder_.take_scratch(near && !by_store_ ? rank : to, all.count);
    for (const Span& part : parts_of(rank, all, borders_of(rank))) {
      const Place place = slot_after(landing, part.first - distance);
      arrivals[to].push_back(
          carrier_.put(queues_[rank], sources(rank, part), {}, queues_[to], place, chunks(rank, part)));
      news[to].push_back({{part.first - distance, part.count}, place});
    }
  }

  std::vector<int> borders_of(int rank) const {
    std::vector<int> borders;
    for (const Came& it : came_[rank]) {
      borders.push_back(it.span.first);
      borders.push_back(it.span.first + it.span.count);
    }
    return borders;
  }

  // The rank's input, and all that came for these blocks. No border divides them.
  std::vector<Place> sources(int rank, Span span) const {
    std::vector<Place> places = {input_of(rank)};
    for (const Came& it : came_[rank]) {
      const int offset = span.first - it.span.first;
      if (offset >= 0 && offset < it.span.count) places.push_back(slot_after(it.place, offset));
    }
    return places;
  }

  void reduce_own(int rank, const std::vector<Place>& places) {
    builder_.reduce(queues_[rank], places, sources(rank, {0, 1}), rank);
  }

  const int ranks_;
  const bool by_store_;
  PlanBuilder builder_;
  Carrier carrier_;
  std::vector<QueueId> queues_;
  std::vector<std::vector<Came>> came_;  // for each rank, on the way to its block
  std::vector<Place> blocks_;            // scratch of each rank for the blocks that it passes on
};

Plan make_bruck(const AlgorithmArguments& arguments) {
  check_arguments(bruck(), arguments);
  return Bruck(arguments).make(arguments.collective);
}

std::vector<AlgorithmArguments> bruck_candidates(const AlgorithmArguments& machine) {
  if (machine.access == Access::kZeroCopy) return {};
  std::vector<AlgorithmArguments> all = with_parts(machine, {1, 1});
  all[on_gpus(machine) ? 0 : 1].direction = Direction::kStore;
  all[on_gpus(machine) ? 1 : 0].direction = Direction::kLoad;
  return all;
}

}  // namespace

Algorithm bruck() {
  return {
      .name = "bruck",
      .summary = "blocks of twice as many ranks in every step; log2 p steps and least bytes over any number of ranks",
      .source = "Bruck et al. 1997; Träff 2024",
      .collectives = {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather},
      .uses = {.direction = true},
      .make = make_bruck,
      .candidates = bruck_candidates};
}

}  // namespace plait
