// Linear: every block goes in a message of its own, straight from the rank that has it to the rank that needs it.
#include <set>
#include <vector>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/moves.hpp"

namespace plait {

Algorithm linear();

namespace {

// All messages are under way at once, those of a rank from the next rank on (Open MPI calls this linear, too):
//
//     r0: send to r1, r2, r3          r1: send to r2, r3, r0          …
//         receive from r1                 receive from r2                     (each receive in a queue of its own)
//         receive from r2                 receive from r3
//         receive from r3                 receive from r0
//
// No rank touches a block that it neither gives nor gets. So the plan serves calls in which a rank knows the sizes of
// its own blocks only (gather_v, scatter_v and all_to_all_v): the two ends of a message compare theirs.
//
// Steps: 1. Bytes: the giver sends each block once. No scratch. In place: not all_to_all, where what comes would
//   overwrite what is still to be sent.
// When: blocks of unequal sizes; up to 16 GPUs of one node, for all links are busy at once; up to 32 ranks on several
//   nodes; for all_to_all up to 16, if each node has one rank.
Plan make_linear(const AlgorithmArguments& arguments) {
  check_arguments(linear(), arguments);
  PlanBuilder builder = start_plan(linear(), arguments, 1);
  const std::vector<QueueId> own = add_queues(builder, arguments);
  const int ranks = arguments.ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    if (!gives(arguments, rank, rank)) continue;
    builder.copy(own[rank], output_of(rank), input_of(rank), chunk_between(arguments, rank, rank));
  }
  for (int from = 0; from < ranks; ++from) {
    QueueId sends;
    for (int d = 1; d < ranks; ++d) {
      const int to = (from + d) % ranks;
      if (!gives(arguments, from, to)) continue;
      if (sends.queue == 0) sends = builder.add_queue(from, Engine::kNet);
      builder.send_receive(sends, input_of(from), builder.add_queue(to, Engine::kNet), output_of(to),
                           chunk_between(arguments, from, to));
    }
  }
  if (arguments.collective == Collective::kAllToAll && ranks > 1) builder.not_in_place();
  return builder.finish();
}

bool has_a_node_for_each_rank(const AlgorithmArguments& machine) {
  const std::set<int> nodes(machine.node_of.begin(), machine.node_of.end());
  return static_cast<int>(nodes.size()) == machine.ranks;
}

// The model counts steps and bytes, and a message of its own for each of many ranks costs more than that. In a gather
// or a scatter one rank has all messages, and every other one has one. Up to 32 of them take no longer to begin than
// the steps of a tree.
constexpr int kMostTriedRanks = 16, kMostTriedRanksOfRooted = 32;

int most_tried_ranks(const AlgorithmArguments& machine) {
  const bool is_rooted = machine.collective != Collective::kAllToAll;
  return is_rooted && !on_one_node(machine) ? kMostTriedRanksOfRooted : kMostTriedRanks;
}

// On one node the queue of `flat` keeps one link busy at a time.
bool is_worth_trying(const AlgorithmArguments& machine) {
  if (machine.access == Access::kZeroCopy || machine.ranks > most_tried_ranks(machine)) return false;
  if (on_one_node(machine)) return on_gpus(machine);  // on CPUs one core moves what all queues of a rank do
  return machine.collective != Collective::kAllToAll || has_a_node_for_each_rank(machine);
}

std::vector<AlgorithmArguments> linear_candidates(const AlgorithmArguments& machine) {
  if (!is_worth_trying(machine)) return {};
  return with_parts(machine, {1});
}

}  // namespace

Algorithm linear() {
  return {.name = "linear",
          .summary = "each block goes in a message of its own to the rank that needs it; one step",
          .source = "BLK-07",
          .collectives = {Collective::kGather, Collective::kScatter, Collective::kAllToAll},
          .uses = {},
          .make = make_linear,
          .candidates = linear_candidates,
          .keeps_to_own_blocks = true};
}

}  // namespace plait
