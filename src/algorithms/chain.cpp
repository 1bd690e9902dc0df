// Pipelined chain: from rank to rank, in parts that follow one another (UEN-X1).
#include <algorithm>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/tree.hpp"

namespace plait {

Algorithm chain();

namespace {

// While one queue waits for its stores to arrive, another one stores. More queues would not fit on a GPU at once with
// as many channels as links want.
constexpr int kMostStoringQueues = 2;

// A broadcast begins at the root, and a reduction ends there. Every rank combines what came with its own input. On the
// left three ranks, root 0, by store; on the right a broadcast by load in three parts:
//
//     r0 --> scratch of r1 --> scratch of r2                 r0 --2--> r1 --1--> r2 --0--> r3
//     r1 --> scratch of r2 --> scratch of r0, with inputs    time: (p - 2 + k)(t_s + M/(k B)) for k parts
//
// Steps: p-1; zero-copy one more, for the signals that ranks were called.
// Bytes: every link of the chain carries M once, one way: a GPU stores to one other only, which links like better than
//   stores to all.
// Scratch, in k slots of M/k: by load if the next rank is on the same node, by store if the previous one is; zero-copy
//   none.
// When: large messages; best k = sqrt((p-2) M / (B t_s)). Several nodes, if their ranks are neighbours. By store on few
//   GPUs, where with p-2 parts and more the last rank is less than a slice of the message behind the first. Not for a
//   reduction of types that add up in wider ones, since partial sums travel wide.
// By store, parts alternate between two queues of a rank.
Plan make_chain(const AlgorithmArguments& arguments) {
  check_arguments(chain(), arguments);
  const bool by_store = arguments.direction == Direction::kStore, zero_copy = arguments.access == Access::kZeroCopy;
  const bool reduces = arguments.collective == Collective::kReduce;
  if (zero_copy && (reduces || !by_store)) {
    refuse(chain(),
           "zero-copy, each rank stores into the next one's output, of a broadcast; use chain(store, zero_copy)",
           " for that");
  }
  Tree tree(arguments.root, arguments.ranks);
  for (int v = 1; v < arguments.ranks; ++v) {
    const int above = reduces ? 1 - v : v - 1, below = reduces ? -v : v;
    tree.add(wrap(arguments.root + above, arguments.ranks), wrap(arguments.root + below, arguments.ranks));
  }
  PlanBuilder builder = start_plan(chain(), arguments, arguments.parts);
  Carrier carrier(builder, arguments.node_of);
  TreeShape shape;
  shape.parts = arguments.parts;
  shape.direction = arguments.direction;
  shape.zero_copy = zero_copy;
  const int queues = by_store && !zero_copy ? std::min(arguments.parts, kMostStoringQueues) : 1;
  for (int queue = 0; queue < queues; ++queue) shape.queues.push_back(add_queues(builder, arguments));
  if (reduces) {
    reduce_along(builder, carrier, tree, shape, all_inputs(arguments.ranks), {output_of(arguments.root)});
  } else {
    broadcast_along(builder, carrier, tree, shape, {input_of(arguments.root)});
  }
  return builder.finish();
}

std::vector<AlgorithmArguments> chain_candidates(const AlgorithmArguments& machine) {
  const bool zero_copy = machine.access == Access::kZeroCopy;
  if (zero_copy && machine.collective == Collective::kReduce) return {};
  const bool stores_first = on_gpus(machine) || zero_copy;
  std::vector<AlgorithmArguments> all = with_parts(machine, {4, 8, 2, 16, 32}), others = all;
  for (AlgorithmArguments& it : all) it.direction = stores_first ? Direction::kStore : Direction::kLoad;
  for (AlgorithmArguments& it : others) it.direction = stores_first ? Direction::kLoad : Direction::kStore;
  if (!zero_copy) all.insert(all.end(), others.begin(), others.end());
  return all;
}

}  // namespace

Algorithm chain() {
  return {.name = "chain",
          .summary = "from rank to rank in parts that follow one another; every link carries the message once",
          .source = "UEN-X1, NVG-47",
          .collectives = {Collective::kBroadcast, Collective::kReduce},
          .uses = {.direction = true, .parts = true, .zero_copy = true},
          .make = make_chain,
          .candidates = chain_candidates};
}

}  // namespace plait
