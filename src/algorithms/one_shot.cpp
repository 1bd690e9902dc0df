// One-shot: everybody reads everything, once.
#include "algorithms/arguments.hpp"
#include "algorithms/carrier.hpp"
#include "algorithms/catalog.hpp"
#include "algorithms/flat.hpp"

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
// There is no zero-copy plan: reading inputs in place would demand a second exchange of signals
// before anybody may return, which takes longer than copying a small message, and could not run in place.
Plan one_shot_by_load(const AlgorithmArguments& arguments) {
  const int ranks = arguments.ranks;
  PlanBuilder builder = start_plan(one_shot(), arguments, 1);
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

Plan make_one_shot(const AlgorithmArguments& arguments) {
  check_arguments(one_shot(), arguments);
  check_one_node(one_shot(), arguments);
  if (arguments.direction == Direction::kStore) return one_shot_by_store(one_shot(), arguments);
  if (arguments.collective != Collective::kAllReduce) {
    refuse(one_shot(), "has no plan by load of ", name(arguments.collective), "; use one_shot(store)");
  }
  if (arguments.parts > 1) refuse(one_shot(), "has no parts by load, and ", arguments.parts, " are asked for");
  return one_shot_by_load(arguments);
}

std::vector<AlgorithmArguments> one_shot_candidates(const AlgorithmArguments& machine) {
  if (!on_one_node(machine) || machine.reach == Reach::kPeer) return {};
  AlgorithmArguments by_store = machine;
  by_store.direction = Direction::kStore;
  std::vector<AlgorithmArguments> all = with_parts(by_store, {1, 2});
  if (machine.collective == Collective::kAllReduce) {
    all.insert(on_gpus(machine) ? all.end() : all.begin(), with_parts(machine, {1})[0]);
    (on_gpus(machine) ? all.back() : all.front()).direction = Direction::kLoad;
  }
  return all;
}

}  // namespace

Algorithm one_shot() {
  return {.name = "one_shot",
          .summary = "everything goes to whoever needs it at once; one step",
          .source = "TEM-17 without its second stage",
          .collectives = {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast},
          .uses = {.direction = true, .parts = true},
          .make = make_one_shot,
          .candidates = one_shot_candidates};
}

}  // namespace plait
