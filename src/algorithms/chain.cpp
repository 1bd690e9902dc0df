// Pipelined chain (UEN-X1).
#include "algorithms/catalog.hpp"
#include "algorithms/tree.hpp"

namespace plait {
namespace {

// From the root to the next rank, and so on, in `pipeline` parts that follow one another. Three parts:
//
//     root --2--> r+1 --1--> r+2 --0--> r+3        time: (p - 2 + k)(t_s + M/(k B)) for k parts
//
// Steps: p-1; with Reach::kPeer one more for the calls. Bytes: every rank but the root receives M once, every link
//   carries M once.
// Scratch slots: k of M/k where the next rank is on the same node (kPeer: none).
// When: large messages; best k = sqrt((p-2) M / (B t_s)). Several nodes, if their ranks are neighbours.
Plan make_chain(const AlgorithmArguments& arguments) {
  check_arguments(chain(), arguments);
  Tree tree(arguments.root, arguments.ranks);
  for (int v = 1; v < arguments.ranks; ++v) {
    tree.add((arguments.root + v - 1) % arguments.ranks, (arguments.root + v) % arguments.ranks);
  }
  return broadcast_along(tree, arguments, label(chain(), "", arguments.pipeline));
}

}  // namespace

Algorithm chain() {
  return {"chain",
          "from rank to rank in parts that follow one another; least bytes for a broadcast of large messages",
          "UEN-X1",
          {Collective::kBroadcast},
          make_chain};
}

}  // namespace plait
