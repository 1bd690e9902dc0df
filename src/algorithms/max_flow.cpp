// Maximum flow: each block goes in shares along the ways that fill the machine's links (BLK-07).
#include "algorithms/steps/max_flow.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/carrier.hpp"

namespace plait {

Algorithm max_flow();

namespace {

// Blocks that go to one rank, each from a rank of its own, are a flow into one sink. They need no tree, and the ways
// that fill the links are found exactly. A gather to r0 from three ranks, one of which has no link to it:
//
//        r0            The block of r3 comes in two shares, one by way of r1, the other by way of r2. So each link into
//      // \\           r0 carries three halves of a block, where a tree would carry two blocks over one of them.
//     r1   r2
//      \   /           scatter: the same ways, backwards
//       r3
//
// Steps: with k parts at most p + k - 2, since ways have at most p-1 links, and each part follows the one before it.
// Bytes: into or out of the root (p-1) b, and what goes on elsewhere.
// Scratch: what passes through a rank, and on its node what it receives, so at most (p-1) b.
// When: large blocks where ranks are joined by links of their own, few or unequal ones.
// parts: of each share. count: ways from each rank, with equal shares.
// Data goes by store. Every link has a queue of its own at the rank that stores, and another where shares end, so that
// no link waits for another.

class AlongWays {
 public:
  AlongWays(const AlgorithmArguments& arguments, std::vector<std::vector<int>> ways)
      : arguments_(arguments),
        ways_(std::move(ways)),
        builder_(start_plan(max_flow(), arguments, int64_t{shares()} * arguments.parts)),
        carrier_(builder_, arguments.node_of) {}

  Plan make() {
    keep_own_block();
    size_t longest = 0;
    for (const auto& way : ways_) longest = std::max(longest, way.size());
    // What happens at the same time, as far as ranks are equally fast: so each queue has its work in that order.
    const int hops = static_cast<int>(longest) - 1;
    for (int time = 0; time < hops + arguments_.parts; ++time) {
      for (size_t i = 0; i < ways_.size(); ++i) {
        for (int hop = std::max(0, time - arguments_.parts + 1); hop <= std::min(time, hops); ++hop) {
          move(i, time - hop, hop);
        }
      }
    }
    return builder_.finish();
  }

 private:
  int shares() const { return std::max(1, static_cast<int>(ways_.size()) / std::max(1, arguments_.ranks - 1)); }
  bool gathers() const { return arguments_.collective == Collective::kGather; }

  // Where a share is, and the queue that may read it there after this signal.
  struct Under {
    Place place;
    std::optional<SignalId> came = {};
  };

  // Moves a part of way i from the rank that has it at that hop to the next, or into the output at the end.
  void move(size_t i, int part, int hop) {
    const std::vector<int>& way = ways_[i];
    const int last = static_cast<int>(way.size()) - 1;
    if (hop > last) return;
    const ChunkRange chunk = {chunk_of(i, part), 1};
    Under& under = under_.try_emplace({i, part}, Under{input_of(way[0])}).first->second;
    if (under.came) builder_.wait(*under.came);
    if (hop == last) {
      if (under.place != output_of(way[last])) {
        builder_.copy(queue(way, hop), output_of(way[last]), under.place, chunk.first, 1);
      }
      return;
    }
    const bool ends_far = hop + 1 == last && !carrier_.together(way[hop], way[last]);
    const Place landing = ends_far ? output_of(way[last]) : builder_.take_scratch(way[hop + 1], 1);
    const Arrival arrival = carrier_.push(queue(way, hop), {under.place}, {}, queue(way, hop + 1), landing, chunk);
    under = {arrival.place, arrival.signal};
  }

  // The chunk of a part of the share of way i, whose block is that of the rank at the other end from the root.
  int chunk_of(size_t i, int part) const {
    const int share = static_cast<int>(i) % shares();
    const int block = gathers() ? ways_[i].front() : ways_[i].back();
    return (block * shares() + share) * arguments_.parts + part;
  }

  // The queue for the link to the next rank or, at the end, for the link from the one before.
  QueueId queue(const std::vector<int>& way, int hop) {
    const bool ends = hop + 1 == static_cast<int>(way.size());
    return queue(way[hop], way[ends ? hop - 1 : hop + 1], ends);
  }
  QueueId queue(int rank, int neighbour, bool ends) {
    const auto [at, is_new] = queues_.try_emplace({rank, neighbour, ends}, QueueId{});
    if (is_new) at->second = builder_.add_queue(rank, arguments_.engine);
    return at->second;
  }

  void keep_own_block() {
    const int root = arguments_.root, chunks = shares() * arguments_.parts;
    builder_.copy(queue(root, root, true), output_of(root), input_of(root), root * chunks, chunks);
  }

  const AlgorithmArguments& arguments_;
  const std::vector<std::vector<int>> ways_;
  PlanBuilder builder_;
  Carrier carrier_;
  std::map<std::tuple<int, int, bool>, QueueId> queues_;  // of [rank, neighbour, whether shares end here]
  std::map<std::pair<size_t, int>, Under> under_;         // way, part
};

Plan make_max_flow(const AlgorithmArguments& arguments) {
  check_arguments(max_flow(), arguments);
  check_links_join_all(max_flow(), arguments);
  std::vector<std::vector<int>> ways;
  if (arguments.ranks > 1)
    ways = pack_ways_to(arguments.root, arguments.ranks, arguments.links, arguments.count).shapes;
  if (arguments.collective == Collective::kScatter) {
    for (auto& way : ways) std::reverse(way.begin(), way.end());
  }
  return AlongWays(arguments, std::move(ways)).make();
}

std::vector<AlgorithmArguments> max_flow_candidates(const AlgorithmArguments& machine) {
  if (machine.access == Access::kZeroCopy || machine.ranks < 2 || !links_join_all(machine)) return {};
  return with_parts(machine, {1, 2, 4});
}

}  // namespace

Algorithm max_flow() {
  return {.name = "max_flow",
          .summary = "blocks to or from one rank in shares, along the ways that fill the links",
          .source = "BLK-07, BLK-21",
          .collectives = {Collective::kGather, Collective::kScatter},
          .uses = {.parts = true, .count = true},
          .make = make_max_flow,
          .candidates = max_flow_candidates};
}

}  // namespace plait
