// Pull: every rank fetches what it needs straight out of the buffer of the rank that has it.
#include <vector>

#include "algorithms/arguments.hpp"
#include "algorithms/carrier.hpp"
#include "algorithms/flat.hpp"

namespace plait {
namespace {

// What one rank has to get out of the input of another, or out of its own.
struct Move {
  int from = 0, to = 0;
};

int chunk_of(const AlgorithmArguments& arguments, int from, int to) {
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

// Between ranks, those of a receiver from the next rank on, so that not all begin with one.
std::vector<Move> moves_between(const AlgorithmArguments& arguments) {
  std::vector<Move> moves;
  for (int to = 0; to < arguments.ranks; ++to) {
    for (int d = 1; d < arguments.ranks; ++d) {
      const int from = (to + d) % arguments.ranks;
      if (gives(arguments, from, to)) moves.push_back({from, to});
    }
  }
  return moves;
}

using PairLanes = std::vector<std::vector<LaneId>>;  // [rank][other]

// A lane on every rank for every other that it gives to or takes from, the next rank's first.
PairLanes add_pair_lanes(PlanBuilder& builder, const AlgorithmArguments& arguments) {
  const int ranks = arguments.ranks;
  PairLanes lanes(ranks, std::vector<LaneId>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    for (int d = 1; d < ranks; ++d) {
      const int other = (rank + d) % ranks;
      if (!gives(arguments, rank, other) && !gives(arguments, other, rank)) continue;
      lanes[rank][other] = builder.add_lane(rank, arguments.engine);
    }
  }
  return lanes;
}

// What copy engines cannot do, or should not: they are for links, and within a GPU a few SMs are faster.
Engine beside_copies(const AlgorithmArguments& arguments) {
  return arguments.engine == Engine::kCopy ? Engine::kSm : arguments.engine;
}

// On every rank that has something for itself one more lane, which copies it and does nothing else.
void add_own_lanes(PlanBuilder& builder, const AlgorithmArguments& arguments) {
  for (int rank = 0; rank < arguments.ranks; ++rank) {
    if (!gives(arguments, rank, rank)) continue;
    const LaneId lane = builder.add_lane(rank, beside_copies(arguments));
    builder.copy(lane, output_of(rank), input_of(rank), chunk_of(arguments, rank, rank));
  }
}

// Moves what lies at source(rank): for each move the taker waits for its signal of `ready`, copies, and tells the
// giver, who waits for that in the end.
void fetch(PlanBuilder& builder, const AlgorithmArguments& arguments, const PairLanes& lanes,
           const std::vector<Move>& moves, const std::vector<SignalId>& ready, Place (*source)(int rank)) {
  std::vector<SignalId> done;
  for (size_t i = 0; i < moves.size(); ++i) {
    const Move& it = moves[i];
    const LaneId lane = lanes[it.to][it.from];
    builder.wait(ready[i]);
    builder.copy(lane, output_of(it.to), source(it.from), chunk_of(arguments, it.from, it.to));
    done.push_back(builder.signal(lane, lanes[it.from][it.to]));
  }
  for (const SignalId& signal : done) builder.wait(signal);
}

// In place an input lies where the output does. A rank of all_to_all would overwrite what others have yet to read. The
// own block of all_gather and the root's message are read while their owner copies them onto themselves, which only the
// engines of a GPU leave out.
bool is_right_in_place(const AlgorithmArguments& arguments) {
  if (arguments.ranks == 1) return true;
  if (arguments.collective == Collective::kAllToAll) return false;
  const bool own_is_shared =
      arguments.collective == Collective::kAllGather || arguments.collective == Collective::kBroadcast;
  return !own_is_shared || arguments.engine != Engine::kCpu;
}

// All pairs are alike and independent. Rank r takes from rank p, each in its lane for the other:
//
//     p:  signal "my buffer is ready" ---.                          .--> wait
//     r:                                  '--> wait, copy, signal --'
//
// Where both give (all_gather, all_to_all): signal ready, wait, copy, signal done, wait. So a lane has one copy at
// most, signals and waits before and behind it, all of them with one lane of one peer. What a rank has for itself is
// copied in a lane of its own, the last.
//
// Steps: 2. Bytes: every rank reads what it needs, once.
Plan move(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  PlanBuilder builder = start_plan(algorithm, arguments, 1);
  const auto lanes = add_pair_lanes(builder, arguments);
  add_own_lanes(builder, arguments);
  const std::vector<Move> moves = moves_between(arguments);
  std::vector<SignalId> ready;
  for (const Move& it : moves) ready.push_back(builder.signal(lanes[it.from][it.to], lanes[it.to][it.from]));
  fetch(builder, arguments, lanes, moves, ready, input_of);
  if (!is_right_in_place(arguments)) builder.not_in_place();
  return builder.finish();
}

// Every lane has told every other one, and been told.
void meet(PlanBuilder& builder, const std::vector<LaneId>& lanes) {
  const SignalTable signals = signal_all(builder, lanes);
  for (size_t rank = 0; rank < lanes.size(); ++rank) wait_all(builder, signals, static_cast<int>(rank));
}

// Chunk q is combined by rank q, straight out of everybody's input, in a lane that does nothing else, the first; of
// all_reduce, all others then copy it out of the output of rank q, each in its lane for that one:
//
//     q:  "my input is ready", wait for all, fold, signal ---.                          .--> wait, of the lane for r
//     r:                           lane for q:                '--> wait, copy, signal --'
//
// In place too: chunk q of an input is read by rank q alone, and nobody writes over it before that has told of its
// fold.
//
// Steps: 2 of reduce_scatter, 3 of all_reduce. Bytes: every rank reads p-1 chunks, in all_reduce twice.
Plan combine(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  const bool shares = arguments.collective == Collective::kAllReduce;
  const int ranks = arguments.ranks;
  PlanBuilder builder = start_plan(algorithm, arguments, shares ? ranks : 1);
  std::vector<LaneId> folds;
  std::vector<Place> inputs;
  for (int rank = 0; rank < ranks; ++rank) {
    folds.push_back(builder.add_lane(rank, beside_copies(arguments)));
    inputs.push_back(input_of(rank));
  }
  meet(builder, folds);
  for (int rank = 0; rank < ranks; ++rank) builder.fold(folds[rank], {output_of(rank)}, inputs, rank);
  if (!shares) {
    meet(builder, folds);
    return builder.finish();
  }
  const auto lanes = add_pair_lanes(builder, arguments);
  const std::vector<Move> moves = moves_between(arguments);
  std::vector<SignalId> combined;
  for (const Move& it : moves) combined.push_back(builder.signal(folds[it.from], lanes[it.to][it.from]));
  fetch(builder, arguments, lanes, moves, combined, output_of);
  return builder.finish();
}

}  // namespace

// Without scratch: for copy engines, which copy from one place to one place and take no SM from anybody, or a few SMs,
// which combine what has to be.
// When: messages from some MiB on between GPUs whose users' buffers are mapped.
Plan flat_by_zero_copy_load(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  if (arguments.collective == Collective::kReduce) {
    refuse(algorithm, "has no zero-copy plan by load of a reduce; use flat(store, zero_copy)");
  }
  return reduces(arguments.collective) && arguments.ranks > 1 ? combine(algorithm, arguments)
                                                              : move(algorithm, arguments);
}

}  // namespace plait
