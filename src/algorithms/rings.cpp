// Rings: several at once, found on the machine's graph, each with its share of the message (NVG-08, UEN-11, UEN-22).
#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/hamilton_rings.hpp"
#include "algorithms/steps/ring.hpp"
#include "algorithms/steps/tree.hpp"
#include "base/figures.hpp"

namespace plait {

Algorithm rings();

namespace {

// One ring uses each rank's links to two others, one way. So there are as many as links have room for, both ways round.
// Three rings of four fully connected ranks, six with both ways, which use every link twice each way (UEN-22):
//
//     r0 - r1        r0   r1        r0 - r1
//     |     |        | \ / |          \ /
//     |     |        | / \ |          / \             (r0 r1 r2 r3), (r0 r2 r1 r3)… and backwards
//     r3 - r2        r3   r2        r3 - r2
//
// all_reduce, reduce_scatter and all_gather go round as `ring` does. A broadcast is a chain along each ring, from the
// root to the rank before it (BLK-02: two rings, n/(2 b) on four fully connected ranks).
//
// Steps: as `ring`: all_reduce 2(p-1), all others p-1.
// Bytes sent per rank: all_reduce 2(p-1)/p M; reduce_scatter, all_gather (p-1) b; broadcast at most M.
// Scratch: as `ring` and `chain`, over all rings together.
// When: long messages where ranks are joined by links of their own, and rings lead through all of them.
// parts: of a ring's piece (UEN-08), or of its share in a broadcast.
// count: rings, each way round counted.
// Every ring has a queue of its own on each rank, so that no ring waits for another.

class AlongRings {
 public:
  AlongRings(const AlgorithmArguments& arguments, std::vector<std::vector<int>> rings)
      : arguments_(arguments),
        rings_(std::move(rings)),
        builder_(start_plan(plait::rings(), arguments, static_cast<int64_t>(rings_.size()) * share_chunks())) {}

  Plan make() {
    for (int index = 0; index < static_cast<int>(rings_.size()); ++index) {
      const std::vector<QueueId> queues = add_queues(builder_, arguments_);
      Carrier& carrier = carriers_.emplace_back(builder_, arguments_.node_of);
      if (arguments_.collective == Collective::kBroadcast) {
        broadcast(index, queues, carrier);
      } else {
        go_round(index, queues, carrier);
      }
    }
    return builder_.finish();
  }

 private:
  // A ring's share of a block.
  int64_t share_chunks() const {
    return int64_t{arguments_.parts} * (arguments_.collective == Collective::kAllReduce ? arguments_.ranks : 1);
  }
  int first_chunk(int index) const { return static_cast<int>(index * share_chunks()); }

  void go_round(int index, const std::vector<QueueId>& queues, Carrier& carrier) {
    const Collective collective = arguments_.collective;
    RingSteps::Shape shape;
    shape.first_chunk = first_chunk(index);
    shape.parts = arguments_.parts;
    shape.scatters = collective != Collective::kAllGather;
    shape.gathers = collective != Collective::kReduceScatter;
    for (const int rank : rings_[index]) {
      shape.queues.push_back(queues[rank]);
      if (!has_rank_blocks(collective)) continue;  // else each has a share of its own block
      shape.first_of_piece.push_back((rank * static_cast<int>(rings_.size()) + index) * arguments_.parts);
    }
    RingSteps(builder_, carrier, shape).perform(all_inputs(arguments_.ranks), to_outputs());
  }

  void broadcast(int index, const std::vector<QueueId>& queues, Carrier& carrier) {
    TreeShape shape;
    shape.queues = {queues};
    shape.first_chunk = first_chunk(index);
    shape.parts = arguments_.parts;
    shape.direction = Direction::kStore;
    broadcast_along(builder_, carrier, chain_from_root(rings_[index]), shape, {input_of(arguments_.root)});
  }

  Tree chain_from_root(const std::vector<int>& ring) const {
    Tree chain(arguments_.root, arguments_.ranks);
    const size_t first = static_cast<size_t>(std::find(ring.begin(), ring.end(), arguments_.root) - ring.begin());
    for (size_t d = 1; d < ring.size(); ++d) {
      chain.add(ring[(first + d - 1) % ring.size()], ring[(first + d) % ring.size()]);
    }
    return chain;
  }

  const AlgorithmArguments& arguments_;
  const std::vector<std::vector<int>> rings_;
  PlanBuilder builder_;
  std::deque<Carrier> carriers_;
};

Plan make_rings(const AlgorithmArguments& arguments) {
  check_arguments(rings(), arguments);
  check_links_join_all(rings(), arguments);
  std::vector<std::vector<int>> found = {{0}};
  if (arguments.ranks > 1) found = pack_rings(arguments.ranks, arguments.links, arguments.count).shapes;
  if (found.empty()) {
    refuse(rings(), "no ring leads along the ", counted(arguments.links.size(), "link"), " that join the ",
           counted(arguments.ranks, "rank"),
           " through all of them; use spanning_trees, or ring, which does not ask for links");
  }
  return AlongRings(arguments, std::move(found)).make();
}

std::vector<AlgorithmArguments> rings_candidates(const AlgorithmArguments& machine) {
  if (machine.access == Access::kZeroCopy || !links_join_all(machine)) return {};
  if (pack_rings(machine.ranks, machine.links, 0).shapes.empty()) return {};
  return with_parts(machine, {2, 4, 1});
}

}  // namespace

Algorithm rings() {
  return {.name = "rings",
          .summary = "as many rings as links have room for, both ways round, each with its share of the message",
          .source = "NVG-08, UEN-11, UEN-22, BLK-02, BLK-11",
          .collectives = {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
                          Collective::kBroadcast},
          .uses = {.parts = true, .count = true},
          .make = make_rings,
          .candidates = rings_candidates};
}

}  // namespace plait
