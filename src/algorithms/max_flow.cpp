// Maximum flow: each block goes in shares along the ways that fill the machine's links (BLK-07).
#include "algorithms/steps/max_flow.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/ways.hpp"

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
// Data goes by store, and every link has a queue of its own (steps/ways.hpp).

Plan make_max_flow(const AlgorithmArguments& arguments) {
  check_arguments(max_flow(), arguments);
  check_links_join_all(max_flow(), arguments);
  std::vector<std::vector<int>> found;
  if (arguments.ranks > 1)
    found = pack_ways_to(arguments.root, arguments.ranks, arguments.links, arguments.count).shapes;
  const int shares = std::max(1, static_cast<int>(found.size()) / std::max(1, arguments.ranks - 1));
  const int chunks = shares * arguments.parts;  // of a block
  PlanBuilder builder = start_plan(max_flow(), arguments, chunks);
  std::vector<Way> ways;
  for (size_t i = 0; i < found.size(); ++i) {
    const int block = found[i].front(), share = static_cast<int>(i) % shares;
    if (arguments.collective == Collective::kScatter) std::reverse(found[i].begin(), found[i].end());
    ways.push_back({std::move(found[i]), block * chunks + share * arguments.parts});
  }
  WaySteps steps(builder, arguments, std::move(ways));
  steps.keep(arguments.root, arguments.root * chunks, chunks);
  steps.move_all();
  return builder.finish();
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
