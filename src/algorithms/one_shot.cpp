// One-shot: everybody reads everything, once.
#include "algorithms/arguments.hpp"
#include "algorithms/carrier.hpp"
#include "algorithms/catalog.hpp"

namespace plait {
namespace {

// Every rank publishes its input, and after one exchange of signals folds all inputs into its own output.
//
//     r0: input -> scratch --+--> fold: output <- s0 + s1 + s2     (its own part straight from its input)
//     r1: input -> scratch --+--> fold: output <- s0 + s1 + s2
//     r2: input -> scratch --+--> fold: output <- s0 + s1 + s2
//
// Steps: 1. Bytes read per rank from others: (p-1) M. Scratch slots: 1 of M. All sources in the order of the ranks.
// When: small messages, where the number of steps is all that counts; one node.
// Publishing also with Reach::kPeer is on purpose: reading inputs in place would demand a second exchange of signals
// before anybody may return, which takes longer than copying a small message, and could not run in place.
Plan make_one_shot(const AlgorithmArguments& arguments) {
  check_arguments(one_shot(), arguments);
  check_one_node(one_shot(), arguments);
  const int ranks = arguments.ranks;
  PlanBuilder builder = start_plan(arguments, label(one_shot(), "", 1), 1);
  const std::vector<LaneId> lanes = add_lanes(builder, arguments);
  std::vector<Place> published;
  for (int rank = 0; rank < ranks && ranks > 1; ++rank) {
    published.push_back(builder.take_scratch(rank));
    builder.copy(lanes[rank], published[rank], input_of(rank), 0);
  }
  const SignalTable ready = signal_all(builder, lanes);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Place> sources = published;
    sources.resize(ranks);
    sources[rank] = input_of(rank);
    wait_all(builder, ready, rank);
    builder.fold(lanes[rank], {output_of(rank)}, sources, 0);
  }
  return builder.finish();
}

}  // namespace

Algorithm one_shot() {
  return {"one_shot",
          "everyone publishes its input and folds all of them; one step",
          "TEM-17 without its second stage",
          {Collective::kAllReduce},
          make_one_shot};
}

}  // namespace plait
