// Pipelined chain: from rank to rank, in parts that follow one another (UEN-X1).
#include <utility>

#include "algorithms/arguments.hpp"
#include "algorithms/catalog.hpp"
#include "algorithms/flat.hpp"
#include "algorithms/tree.hpp"

namespace plait {
namespace {

// From the root to the next rank, and so on, in `parts` parts that follow one another. Three parts:
//
//     root --2--> r+1 --1--> r+2 --0--> r+3        time: (p - 2 + k)(t_s + M/(k B)) for k parts
//
// Steps: p-1; with Reach::kPeer one more for the calls. Bytes: every rank but the root receives M once, every link
//   carries M once.
// Scratch slots: k of M/k where the next rank is on the same node (kPeer: none).
// When: large messages; best k = sqrt((p-2) M / (B t_s)). Several nodes, if their ranks are neighbours.
Plan along_tree(const AlgorithmArguments& arguments) {
  Tree tree(arguments.root, arguments.ranks);
  for (int v = 1; v < arguments.ranks; ++v) {
    tree.add((arguments.root + v - 1) % arguments.ranks, (arguments.root + v) % arguments.ranks);
  }
  return broadcast_along(tree, chain(), arguments);
}

bool is_zero_copy(const AlgorithmArguments& arguments) { return arguments.reach == Reach::kPeer; }

Plan make_chain(const AlgorithmArguments& arguments) {
  check_arguments(chain(), arguments);
  const bool by_store = arguments.direction == Direction::kStore;
  if (arguments.collective == Collective::kReduce && (!by_store || is_zero_copy(arguments))) {
    refuse(chain(), "a reduce goes by stores through the library's memory; use chain(store)");
  }
  if (is_zero_copy(arguments) && !by_store) {
    refuse(chain(), "zero-copy, each rank stores into the next one's output; use chain(store, zero_copy)");
  }
  if (!by_store || is_zero_copy(arguments)) return along_tree(arguments);
  check_one_node(chain(), arguments);
  return chain_by_store(chain(), arguments);
}

std::vector<AlgorithmArguments> chain_candidates(const AlgorithmArguments& machine) {
  AlgorithmArguments by_load = machine, by_store = machine;
  by_load.direction = Direction::kLoad;
  by_store.direction = Direction::kStore;
  const std::vector<int> parts = {4, 8, 2, 1};
  const bool reduces = machine.collective == Collective::kReduce;
  if (is_zero_copy(machine)) return reduces ? std::vector<AlgorithmArguments>{} : with_parts(by_store, parts);
  if (!on_one_node(machine)) return reduces ? std::vector<AlgorithmArguments>{} : with_parts(by_load, parts);
  if (reduces) return with_parts(by_store, parts);
  std::vector<AlgorithmArguments> all = with_parts(by_store, parts), others = with_parts(by_load, parts);
  if (!on_gpus(machine)) std::swap(all, others);
  all.insert(all.end(), others.begin(), others.end());
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
