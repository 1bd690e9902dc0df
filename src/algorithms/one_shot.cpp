// One-shot: everything goes at once to the ranks that need it.
#include <algorithm>
#include <utility>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/partners.hpp"
#include "algorithms/steps/signals.hpp"

namespace plait {

Algorithm one_shot();

namespace {

// By load, every rank publishes its input, and after one exchange of signals reduces all inputs into its own output. By
// store, it puts its input into a slot of its own on every rank:
//
//     load   r0: input --> scratch --+--> reduce: output <- s0 + s1 + s2     (its own part straight from its input)
//            r1: input --> scratch --+--> reduce: output <- s0 + s1 + s2
//     store  r0: input --> slot 0 of r1, r2        then reduce: output <- slot 0 + slot 1 + slot 2
//            r1: input --> slot 1 of r0, r2             (the own input in place of the own slot)
//
// That is all_reduce. In reduce only the root gets something, and in broadcast only the root gives.
//
// Steps: 1. Bytes that cross: all_reduce (p-1) M a rank, the others (p-1) M at the root. Scratch slots of M: by load
//   one on every rank that gives; by store one for every other rank. All sources are combined in the order of the
//   ranks.
// When: small messages, for which only the number of steps counts; one node.
// There is no zero-copy plan. To read inputs in place would demand a second exchange of signals before any rank may
// return. That takes longer than copying a small message, and could not run in place.
// parts, by store: 2 have a queue for each step.
class OneShot {
 public:
  explicit OneShot(const AlgorithmArguments& arguments)
      : arguments_(arguments),
        by_store_(arguments.direction == Direction::kStore),
        builder_(start_plan(one_shot(), arguments, 1)),
        stages_(builder_, add_queues(builder_, arguments), arguments.engine, arguments.parts > 1),
        boxes_(arguments.ranks) {}

  Plan make() {
    builder_.expect(2 * pair_count(arguments_));  // a signal and a wait
    take_boxes();
    for (int rank = 0; rank < arguments_.ranks; ++rank) give(rank);
    std::vector<std::vector<SignalId>> ready(arguments_.ranks);
    for (int rank = 0; rank < arguments_.ranks; ++rank) {
      for (const int to : takers_from(arguments_, rank)) {
        ready[to].push_back(builder_.signal(stages_.queue(rank, 0), stages_.queue(to, 1)));
      }
    }
    for (int rank = 0; rank < arguments_.ranks; ++rank) take(rank, std::move(ready[rank]));
    return builder_.finish();
  }

 private:
  // Takes scratch. By store every rank has a slot for every other, used or not, so that slots have the same numbers on
  // all ranks. By load a rank has one slot, for what it gives.
  void take_boxes() {
    for (int rank = 0; rank < arguments_.ranks; ++rank) {
      if (by_store_) {
        boxes_[rank] = builder_.take_scratch(rank, arguments_.ranks - 1);
      } else if (!takers_from(arguments_, rank).empty()) {
        boxes_[rank] = builder_.take_scratch(rank);
      }
    }
  }

  // The place at which `to` finds what `from` gives.
  Place box(int to, int from) const {
    if (to == from) return input_of(from);
    return by_store_ ? slot_after(boxes_[to], from < to ? from : from - 1) : boxes_[from];
  }

  void give(int rank) {
    std::vector<Place> places;
    for (const int to : takers_from(arguments_, rank)) {
      if (places.empty() || by_store_) places.push_back(box(to, rank));
    }
    if (!places.empty()) builder_.reduce(stages_.queue(rank, 0), places, {input_of(rank)}, 0);
  }

  void take(int rank, std::vector<SignalId> ready) {
    const QueueId queue = stages_.queue(rank, 1);
    if (!by_store_) {  // by load a rank reads those of others, the next rank's first
      const auto is_before = [&](const SignalId& signal) { return signal.from.rank < rank; };
      std::rotate(ready.begin(), std::find_if_not(ready.begin(), ready.end(), is_before), ready.end());
    }
    // In place, the result takes the input's place, so the input must have been given before.
    if (queue.queue != 0) ready.push_back(builder_.signal(stages_.queue(rank, 0), queue));
    for (const SignalId& signal : ready) builder_.wait(signal);
    std::vector<int> givers = givers_to(arguments_, rank);
    if (gives(arguments_, rank, rank)) givers.push_back(rank);
    std::sort(givers.begin(), givers.end());
    std::vector<Place> sources;
    for (const int from : givers) sources.push_back(box(rank, from));
    if (!sources.empty()) builder_.reduce(queue, {output_of(rank)}, sources, 0);
  }

  const AlgorithmArguments& arguments_;
  const bool by_store_;
  PlanBuilder builder_;
  Stages stages_;
  std::vector<Place> boxes_;  // [rank]: the first of its slots
};

Plan make_one_shot(const AlgorithmArguments& arguments) {
  check_arguments(one_shot(), arguments);
  check_one_node(one_shot(), arguments);
  check_queue_a_step(one_shot(), arguments);
  return OneShot(arguments).make();
}

std::vector<AlgorithmArguments> one_shot_candidates(const AlgorithmArguments& machine) {
  if (!on_one_node(machine) || machine.access == Access::kZeroCopy) return {};
  AlgorithmArguments by_load = machine, by_store = machine;
  by_load.direction = Direction::kLoad;
  by_store.direction = Direction::kStore;
  std::vector<AlgorithmArguments> all = with_parts(by_store, {1, 2});
  all.insert(on_gpus(machine) ? all.end() : all.begin(), with_parts(by_load, {1})[0]);
  return all;
}

}  // namespace

Algorithm one_shot() {
  return {.name = "one_shot",
          .summary = "everything goes at once to the ranks that need it; one step",
          .source = "TEM-17 without its second stage",
          .collectives = {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast},
          .uses = {.direction = true, .parts = true},
          .make = make_one_shot,
          .candidates = one_shot_candidates};
}

}  // namespace plait
