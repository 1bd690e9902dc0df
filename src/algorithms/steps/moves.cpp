// Moves by store and by load.
#include "algorithms/steps/moves.hpp"

#include <utility>
#include <vector>

namespace plait {
namespace {

// A rank gets something out of the input of another.
struct Move {
  int from = 0, to = 0;
};

// The moves of each receiver, from the next rank on, so that not all begin with the same giver.
std::vector<Move> moves_by_receiver(const AlgorithmArguments& arguments) {
  std::vector<Move> moves;
  for (int to = 0; to < arguments.ranks; ++to) {
    for (const int from : givers_to(arguments, to)) moves.push_back({from, to});
  }
  return moves;
}

// The moves of each giver, the givers from the root on, and the receivers from the next rank on.
std::vector<Move> moves_by_giver(const AlgorithmArguments& arguments) {
  const int first = has_root(arguments.collective) ? arguments.root : 0;
  std::vector<Move> moves;
  for (int i = 0; i < arguments.ranks; ++i) {
    const int from = (first + i) % arguments.ranks;
    for (const int to : takers_from(arguments, from)) moves.push_back({from, to});
  }
  return moves;
}

using PairQueues = PairTable<QueueId>;  // (rank, other)

// Adds a queue on every rank for every other that it gives to or gets from, the next rank's first.
PairQueues add_pair_queues(PlanBuilder& builder, const AlgorithmArguments& arguments) {
  builder.expect(pair_count(arguments));
  PairQueues queues(arguments);
  for (int rank = 0; rank < arguments.ranks; ++rank) {
    const std::vector<int> takers = takers_from(arguments, rank);
    for (const int other : takers.empty() ? givers_to(arguments, rank) : takers) {
      queues.at(rank, other) = builder.add_queue(rank, arguments.engine);
    }
  }
  return queues;
}

// The engine for what copy engines cannot do, or should not: they are for links, and within a GPU a few SMs are faster.
Engine beside_copies(const AlgorithmArguments& arguments) {
  return arguments.engine == Engine::kCopy ? Engine::kSm : arguments.engine;
}

// Adds one more queue on every rank that gives something to itself. The queue only copies that.
void add_own_queues(PlanBuilder& builder, const AlgorithmArguments& arguments) {
  for (int rank = 0; rank < arguments.ranks; ++rank) {
    if (!gives(arguments, rank, rank)) continue;
    const QueueId queue = builder.add_queue(rank, beside_copies(arguments));
    builder.copy(queue, output_of(rank), input_of(rank), chunk_between(arguments, rank, rank));
  }
}

// Moves the data at source(rank). For each move the receiver waits for its signal of `ready`, copies, and signals the
// giver, which waits for that in the end.
void fetch(PlanBuilder& builder, const AlgorithmArguments& arguments, const PairQueues& queues,
           const std::vector<Move>& moves, const std::vector<SignalId>& ready, Place (*source)(int rank)) {
  std::vector<SignalId> done;
  for (size_t i = 0; i < moves.size(); ++i) {
    const Move& it = moves[i];
    const QueueId queue = queues.at(it.to, it.from);
    builder.wait(ready[i]);
    builder.copy(queue, output_of(it.to), source(it.from), chunk_between(arguments, it.from, it.to));
    done.push_back(builder.signal(queue, queues.at(it.from, it.to)));
  }
  for (const SignalId& signal : done) builder.wait(signal);
}

// In place, an input lies where the output does. A rank of all_to_all would overwrite what others have yet to read. The
// own block of all_gather and the root's message are read while their owner copies them onto themselves; only engines
// of a GPU leave that copy out.
bool is_right_in_place(const AlgorithmArguments& arguments) {
  if (arguments.ranks == 1) return true;
  if (arguments.collective == Collective::kAllToAll) return false;
  const bool own_is_shared =
      arguments.collective == Collective::kAllGather || arguments.collective == Collective::kBroadcast;
  return !own_is_shared || arguments.engine != Engine::kCpu;
}

}  // namespace

int chunk_between(const AlgorithmArguments& arguments, int from, int to) {
  switch (arguments.collective) {
    case Collective::kBroadcast:
      return 0;
    case Collective::kScatter:
      return to;
    case Collective::kAllToAll:
      return from * arguments.ranks + to;
    default:  // all_gather and gather
      return from;
  }
}

void move_by_store(PlanBuilder& builder, const AlgorithmArguments& arguments, Stages& stages) {
  const int ranks = arguments.ranks;
  const auto chunk = [&](int from, int to) { return chunk_between(arguments, from, to); };
  builder.expect(2 * pair_count(arguments));  // a signal and a wait
  const std::vector<Move> moves = moves_by_giver(arguments);
  PairTable<Place> slots(arguments);  // (to, from)
  for (const auto& [from, to] : moves) {
    slots.at(to, from) = builder.take_scratch(to);
    builder.copy(stages.queue(from, 0), slots.at(to, from), input_of(from), chunk(from, to));
  }
  PairTable<SignalId> given(arguments);
  for (const auto& [from, to] : moves) given.at(to, from) = builder.signal(stages.queue(from, 0), stages.queue(to, 1));
  // A rank copies its own block when it has time. If it gives nothing, as a gather's root, it does so in its first
  // queue; else in its last, until something comes.
  const int own_stage = arguments.collective == Collective::kGather ? 0 : 1;
  for (int to = 0; to < ranks; ++to) {
    if (gives(arguments, to, to)) {
      builder.copy(stages.queue(to, own_stage), output_of(to), input_of(to), chunk(to, to));
    }
    // In place, the results of all_to_all take the input's place, so the input must have been given before.
    if (arguments.collective == Collective::kAllToAll && stages.queue(to, 1).queue != 0) {
      builder.wait(builder.signal(stages.queue(to, 0), stages.queue(to, 1)));
    }
    const std::vector<int> givers = givers_to(arguments, to);
    for (const int from : givers) builder.wait(given.at(to, from));
    for (const int from : givers) {
      builder.copy(stages.queue(to, 1), output_of(to), slots.at(to, from), chunk(from, to));
    }
  }
}

void move_by_zero_copy_load(PlanBuilder& builder, const AlgorithmArguments& arguments) {
  const auto queues = add_pair_queues(builder, arguments);
  add_own_queues(builder, arguments);
  const std::vector<Move> moves = moves_by_receiver(arguments);
  std::vector<SignalId> ready;
  for (const Move& it : moves) ready.push_back(builder.signal(queues.at(it.from, it.to), queues.at(it.to, it.from)));
  fetch(builder, arguments, queues, moves, ready, input_of);
  if (!is_right_in_place(arguments)) builder.not_in_place();
}

void combine_by_zero_copy_load(PlanBuilder& builder, const AlgorithmArguments& arguments) {
  const bool shares = arguments.collective == Collective::kAllReduce;
  const int ranks = arguments.ranks;
  std::vector<QueueId> reduces;
  std::vector<Place> inputs;
  for (int rank = 0; rank < ranks; ++rank) {
    reduces.push_back(builder.add_queue(rank, beside_copies(arguments)));
    inputs.push_back(input_of(rank));
  }
  barrier_among(builder, reduces);
  for (int rank = 0; rank < ranks; ++rank) builder.reduce(reduces[rank], {output_of(rank)}, inputs, rank);
  if (!shares) {
    barrier_among(builder, reduces);
    return;
  }
  const auto queues = add_pair_queues(builder, arguments);
  const std::vector<Move> moves = moves_by_receiver(arguments);
  std::vector<SignalId> combined;
  for (const Move& it : moves) combined.push_back(builder.signal(reduces[it.from], queues.at(it.to, it.from)));
  fetch(builder, arguments, queues, moves, combined, output_of);
}

}  // namespace plait
