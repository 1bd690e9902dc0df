// Push: every rank looks after one chunk, as in `flat`, but data moves by stores into the memory of whoever needs it.
#include <algorithm>

#include "algorithms/arguments.hpp"
#include "algorithms/carrier.hpp"
#include "algorithms/flat.hpp"

namespace plait {
namespace {

// What all collectives of this file do, in one lane a rank, or with two parts in a lane for each step. An engine
// loads from its own rank's memory only: a store over a link is posted and needs no answer, while a load waits for one,
// and costs the other direction of the link as well. What arrives in scratch is combined or copied by its owner. Every
// slot is written once, by one rank, so that a small message can carry its flags inside the data instead of signals
// (runtime/cuda/packets.cuh).
struct Push {
  Push(const Algorithm& algorithm, const AlgorithmArguments& the_arguments, int64_t chunks_per_block)
      : arguments(the_arguments),
        ranks(arguments.ranks),
        builder(start_plan(algorithm, arguments, chunks_per_block)),
        lanes(add_lanes(builder, arguments)) {}

  // The lane of a rank that acts after `steps` steps: one lane for all of them, or, with two parts, a lane for each,
  // so that a lane may be a slice of the message ahead of the lane that comes after it.
  LaneId lane(int rank, int steps) {
    if (arguments.parts == 1 || steps == 0) return lanes[rank];
    while (static_cast<int>(later.size()) < steps) {
      auto& stage = later.emplace_back();
      for (int r = 0; r < ranks; ++r) stage.push_back(builder.add_lane(r, arguments.engine));
    }
    return later[steps - 1][rank];
  }

  // Every rank tells every other, from one stage to the next: [i][d] is the signal from rank i to rank i + d.
  SignalTable tell_all(int from, int to) {
    SignalTable signals(ranks, std::vector<SignalId>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      for (int d = 1; d < ranks; ++d) {
        signals[rank][d] = builder.signal(lane(rank, from), lane((rank + d) % ranks, to));
      }
    }
    return signals;
  }

  using Table = std::vector<std::vector<Place>>;

  // A slot on every rank for every other: [to][from]. Own entries are never used.
  Table take_inboxes() {
    Table inboxes(ranks, std::vector<Place>(ranks));
    for (int to = 0; to < ranks; ++to) {
      for (int from = 0; from < ranks; ++from) {
        if (from != to) inboxes[to][from] = builder.take_scratch(to);
      }
    }
    return inboxes;
  }

  // What every other rank has pushed to `rank`, with the rank's own input, in the order of the ranks.
  std::vector<Place> contributions(const Table& inboxes, int rank) const {
    std::vector<Place> places = inboxes[rank];
    places[rank] = input_of(rank);
    return places;
  }

  // The slots that `from` writes on the ranks of `receivers`, the next rank's first.
  std::vector<Place> outboxes(const Table& inboxes, int from) const {
    std::vector<Place> places;
    for (int d = 1; d < ranks; ++d) places.push_back(inboxes[(from + d) % ranks][from]);
    return places;
  }

  // Every rank stores chunk q of its input at rank q.
  void scatter(const Table& inboxes) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (int d = 1; d < ranks; ++d) {
        const int owner = (rank + d) % ranks;
        builder.copy(lanes[rank], inboxes[owner][rank], input_of(rank), owner);
      }
    }
  }

  // Copies what every rank q has stored, its chunk q, into the outputs, after that step: all at once, since a wait for
  // each would cost more than it gains where all come at about the same time.
  void collect(const Table& inboxes, int steps) {
    const SignalTable signals = tell_all(steps - 1, steps);
    for (int rank = 0; rank < ranks; ++rank) {
      wait_all(builder, signals, rank);
      for (int d = 1; d < ranks; ++d) {
        const int owner = (rank + d) % ranks;
        builder.copy(lane(rank, steps), output_of(rank), inboxes[rank][owner], owner);
      }
    }
  }

  // Everything that was stored in step `steps` is there.
  void arrive(int steps) {
    const SignalTable signals = tell_all(steps - 1, steps);
    for (int rank = 0; rank < ranks; ++rank) wait_all(builder, signals, rank);
  }

  const AlgorithmArguments& arguments;
  const int ranks;
  PlanBuilder builder;
  std::vector<LaneId> lanes;
  std::vector<std::vector<LaneId>> later;  // [step - 1][rank]
};

std::vector<Place> with(Place first, std::vector<Place> others) {
  others.insert(others.begin(), first);
  return others;
}

// Chunk q is combined by rank q. Chunk 0 of four ranks:
//
//     stage 1: r1, r2, r3 --> scratch of r0, r0 combines     stage 2: r0 --> scratch of r1, r2, r3, who copy it out
//
// Steps: 2. Bytes stored per rank over links: 2(p-1)/p M. Scratch: 2(p-1) slots of M/p.
Plan all_reduce(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  Push it(algorithm, arguments, arguments.ranks);
  const Push::Table parts = it.take_inboxes();
  const Push::Table results = it.take_inboxes();
  it.scatter(parts);
  it.arrive(1);
  for (int rank = 0; rank < it.ranks; ++rank) {
    it.builder.fold(it.lane(rank, 1), with(output_of(rank), it.outboxes(results, rank)), it.contributions(parts, rank),
                    rank);
  }
  it.collect(results, 2);
  return it.builder.finish();
}

// Stage 1 alone. Steps: 1. Bytes stored per rank: p-1 blocks. Scratch: p-1 slots of a block.
Plan reduce_scatter(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  Push it(algorithm, arguments, 1);
  const Push::Table parts = it.take_inboxes();
  it.scatter(parts);
  it.arrive(1);
  for (int rank = 0; rank < it.ranks; ++rank) {
    it.builder.fold(it.lane(rank, 1), {output_of(rank)}, it.contributions(parts, rank), rank);
  }
  return it.builder.finish();
}

// Stage 2 alone. Steps: 1. Bytes stored per rank: p-1 blocks. Scratch: p-1 slots of a block.
Plan all_gather(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  Push it(algorithm, arguments, 1);
  const Push::Table blocks = it.take_inboxes();
  for (int rank = 0; rank < it.ranks; ++rank) {
    it.builder.fold(it.lanes[rank], with(output_of(rank), it.outboxes(blocks, rank)), {input_of(rank)}, rank);
  }
  it.collect(blocks, 1);
  return it.builder.finish();
}

// The ranks other than the root, from the root on; chunk c is the affair of the c-th of them.
std::vector<int> owners_of(int ranks, int root) {
  std::vector<int> owners;
  for (int d = 1; d < ranks; ++d) owners.push_back((root + d) % ranks);
  return owners;
}

// Chunk c goes to its owner, who combines it and stores the result at the root.
//
// One lane a rank: everybody owns a chunk, the root too, and the stages follow each other: (p-1)/p M over the busiest
// link in each. A lane for each step: the stages are under way at once, and the root owns nothing, so that its incoming
// link carries M and not 2(p-1)/p M. With two ranks the root combines by itself.
//
// Steps: 2; 1 with two ranks. Bytes: every rank stores up to M. Scratch: up to 2(p-1) slots of M/p on the root, and p-1
// on the others.
Plan reduce(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  const int ranks = arguments.ranks, root = arguments.root;
  std::vector<int> owners = ranks == 2 ? std::vector<int>{} : owners_of(ranks, root);
  if (ranks <= 2 || arguments.parts == 1) owners.insert(owners.begin(), root);
  if (ranks == 2) owners.resize(1);
  const int chunks = static_cast<int>(owners.size());
  Push it(algorithm, arguments, chunks);
  if (ranks == 1) {
    it.builder.copy(it.lanes[0], output_of(0), input_of(0), 0);
    return it.builder.finish();
  }
  const Push::Table parts = it.take_inboxes();
  const auto pushes = [&](int rank, const auto& act) {
    for (int d = 0; d < chunks; ++d) {
      const int chunk = (rank + d) % chunks;
      if (owners[chunk] != rank) act(chunk);
    }
  };
  for (int rank = 0; rank < ranks; ++rank) {
    pushes(rank,
           [&](int chunk) { it.builder.copy(it.lanes[rank], parts[owners[chunk]][rank], input_of(rank), chunk); });
  }
  std::vector<std::vector<SignalId>> ready(chunks);
  for (int rank = 0; rank < ranks; ++rank) {
    pushes(rank,
           [&](int chunk) { ready[chunk].push_back(it.builder.signal(it.lanes[rank], it.lane(owners[chunk], 1))); });
  }
  std::vector<Place> results(chunks);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const int owner = owners[chunk];
    // Where the root owns nothing, its inboxes are free for results.
    results[chunk] = owner == root            ? output_of(root)
                     : owners.front() == root ? it.builder.take_scratch(root)
                                              : parts[root][owner];
    for (const SignalId& signal : ready[chunk]) it.builder.wait(signal);
    it.builder.fold(it.lane(owner, 1), {results[chunk]}, it.contributions(parts, owner), chunk);
  }
  for (int chunk = 0; chunk < chunks; ++chunk) {
    if (owners[chunk] == root) continue;
    it.builder.wait(it.builder.signal(it.lane(owners[chunk], 1), it.lane(root, 2)));
    it.builder.copy(it.lane(root, 2), output_of(root), results[chunk], chunk);
  }
  return it.builder.finish();
}

// The root stores chunk c at its owner, who shares it with the others (BLK-03).
//
// Steps: 2; 1 with two ranks. Bytes: the root stores M, every other rank (p-2)/(p-1) M and receives M. Scratch: p-1
// slots of M/(p-1) on every rank but the root.
Plan broadcast(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  const int ranks = arguments.ranks, root = arguments.root;
  const std::vector<int> owners = owners_of(ranks, root);
  const int chunks = std::max(1, ranks - 1);
  Push it(algorithm, arguments, chunks);
  PlanBuilder& builder = it.builder;
  if (ranks == 1) {
    builder.copy(it.lanes[0], output_of(0), input_of(0), 0);
    return builder.finish();
  }
  std::vector<std::vector<Place>> slots(ranks, std::vector<Place>(chunks));  // [rank][chunk]
  for (const int rank : owners) {
    for (int chunk = 0; chunk < chunks; ++chunk) slots[rank][chunk] = builder.take_scratch(rank);
  }
  std::vector<std::vector<SignalId>> shared(chunks);  // [chunk][d - 1]: to the d-th owner after the chunk's
  for (int chunk = 0; chunk < chunks; ++chunk) {
    builder.copy(it.lanes[root], slots[owners[chunk]][chunk], input_of(root), chunk);
  }
  std::vector<SignalId> given;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    given.push_back(builder.signal(it.lanes[root], it.lane(owners[chunk], 1)));
  }
  builder.copy(it.lanes[root], output_of(root), input_of(root), 0, chunks);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const int owner = owners[chunk];
    builder.wait(given[chunk]);
    std::vector<Place> places = {output_of(owner)};
    for (int d = 1; d < chunks; ++d) places.push_back(slots[owners[(chunk + d) % chunks]][chunk]);
    builder.fold(it.lane(owner, 1), places, {slots[owner][chunk]}, chunk);
  }
  for (int d = 1; d < chunks; ++d) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const int to = owners[(chunk + d) % chunks];
      shared[chunk].push_back(builder.signal(it.lane(owners[chunk], 1), it.lane(to, 2)));
    }
  }
  for (int i = 0; i < chunks; ++i) {
    for (int d = 1; d < chunks; ++d) {
      const int chunk = (i + d) % chunks;
      builder.wait(shared[chunk][wrap(i - chunk, chunks) - 1]);
      builder.copy(it.lane(owners[i], 2), output_of(owners[i]), slots[owners[i]][chunk], chunk);
    }
  }
  return builder.finish();
}

// Every rank stores its block at the root, who copies them out. Steps: 1. Bytes: every rank but the root stores a
// block. Scratch: p-1 slots of a block at the root.
Plan gather(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  Push it(algorithm, arguments, 1);
  const int root = arguments.root;
  std::vector<Place> slots(it.ranks);
  std::vector<SignalId> given(it.ranks);
  for (int d = 1; d < it.ranks; ++d) {
    const int rank = (root + d) % it.ranks;
    slots[rank] = it.builder.take_scratch(root);
    it.builder.copy(it.lanes[rank], slots[rank], input_of(rank), rank);
    given[rank] = it.builder.signal(it.lanes[rank], it.lane(root, 1));
  }
  it.builder.copy(it.lanes[root], output_of(root), input_of(root), root);
  for (int d = 1; d < it.ranks; ++d) it.builder.wait(given[(root + d) % it.ranks]);
  for (int d = 1; d < it.ranks; ++d) {
    const int rank = (root + d) % it.ranks;
    it.builder.copy(it.lane(root, 1), output_of(root), slots[rank], rank);
  }
  return it.builder.finish();
}

// The root stores block q at rank q, who copies it out. Steps: 1. Bytes: the root stores p-1 blocks. Scratch: a slot of
// a block on every rank but the root.
Plan scatter(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  Push it(algorithm, arguments, 1);
  const int root = arguments.root;
  std::vector<Place> slots(it.ranks);
  for (int d = 1; d < it.ranks; ++d) {
    const int rank = (root + d) % it.ranks;
    slots[rank] = it.builder.take_scratch(rank);
    it.builder.copy(it.lanes[root], slots[rank], input_of(root), rank);
  }
  std::vector<SignalId> given(it.ranks);
  for (int d = 1; d < it.ranks; ++d) {
    const int rank = (root + d) % it.ranks;
    given[rank] = it.builder.signal(it.lanes[root], it.lane(rank, 1));
  }
  it.builder.copy(it.lane(root, 1), output_of(root), input_of(root), root);
  for (int d = 1; d < it.ranks; ++d) {
    const int rank = (root + d) % it.ranks;
    it.builder.wait(given[rank]);
    it.builder.copy(it.lane(rank, 1), output_of(rank), slots[rank], rank);
  }
  return it.builder.finish();
}

// Every rank stores a block of its own at every other, who copies them out. Steps: 1. Bytes stored per rank: p-1
// blocks. Scratch: p-1 slots of a block.
Plan all_to_all(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  Push it(algorithm, arguments, 1);
  const int ranks = it.ranks;
  const auto block = [&](int from, int to) { return from * ranks + to; };
  const Push::Table inboxes = it.take_inboxes();
  for (int rank = 0; rank < ranks; ++rank) {
    for (int d = 1; d < ranks; ++d) {
      const int to = (rank + d) % ranks;
      it.builder.copy(it.lanes[rank], inboxes[to][rank], input_of(rank), block(rank, to));
    }
  }
  const SignalTable signals = it.tell_all(0, 1);
  for (int rank = 0; rank < ranks; ++rank) {
    const LaneId last = it.lane(rank, 1);
    it.builder.copy(last, output_of(rank), input_of(rank), block(rank, rank));  // which has time until something comes
    // In place the results take the input's place, so it must have been given.
    if (last.lane != 0) it.builder.wait(it.builder.signal(it.lanes[rank], last));
    wait_all(it.builder, signals, rank);
    for (int d = 1; d < ranks; ++d) {
      const int from = (rank + d) % ranks;
      it.builder.copy(last, output_of(rank), inboxes[rank][from], block(from, rank));
    }
  }
  return it.builder.finish();
}

// A lane a step, of which there are two at most.
void check_two_lanes(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  if (arguments.parts <= 2) return;
  refuse(algorithm, "by stores it takes parts 1, which is one lane a rank, or 2, a lane for each step, not ",
         arguments.parts);
}

}  // namespace

// Everybody stores everything at everybody, for messages so small that only the number of steps counts.
//
//     r0: input --> slot 0 of r1, r2        then fold: output <- slot 0 + slot 1 + slot 2
//     r1: input --> slot 1 of r0, r2             (the own input in place of the own slot)
//     r2: input --> slot 2 of r0, r1
//
// all_reduce: steps 1, bytes stored per rank (p-1) M, scratch p-1 slots of M.
// reduce: everybody at the root; broadcast: the root at everybody. Steps 1, scratch where data arrives.
Plan one_shot_by_store(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  check_two_lanes(algorithm, arguments);
  Push it(algorithm, arguments, 1);
  const Push::Table inboxes = it.take_inboxes();
  const int root = arguments.root;
  for (int rank = 0; rank < it.ranks; ++rank) {
    std::vector<Place> places;
    for (int d = 1; d < it.ranks; ++d) {
      const int to = (rank + d) % it.ranks;
      if (gives(arguments, rank, to)) places.push_back(inboxes[to][rank]);
    }
    if (!places.empty()) it.builder.fold(it.lanes[rank], places, {input_of(rank)}, 0);
  }
  std::vector<std::vector<SignalId>> ready(it.ranks);
  for (int rank = 0; rank < it.ranks; ++rank) {
    for (int d = 1; d < it.ranks; ++d) {
      const int to = (rank + d) % it.ranks;
      if (gives(arguments, rank, to)) ready[to].push_back(it.builder.signal(it.lanes[rank], it.lane(to, 1)));
    }
  }
  for (int rank = 0; rank < it.ranks; ++rank) {
    // In place the result takes the input's place, so it must have been given.
    if (it.lane(rank, 1).lane != 0) ready[rank].push_back(it.builder.signal(it.lanes[rank], it.lane(rank, 1)));
    for (const SignalId& signal : ready[rank]) it.builder.wait(signal);
    if (arguments.collective == Collective::kBroadcast) {
      const Place source = rank == root ? input_of(root) : inboxes[rank][root];
      it.builder.copy(it.lane(rank, 1), output_of(rank), source, 0);
    } else if (arguments.collective == Collective::kAllReduce || rank == root) {
      it.builder.fold(it.lane(rank, 1), {output_of(rank)}, it.contributions(inboxes, rank), 0);
    }
  }
  return it.builder.finish();
}

Plan flat_by_store(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  check_two_lanes(algorithm, arguments);
  switch (arguments.collective) {
    case Collective::kAllReduce:
      return all_reduce(algorithm, arguments);
    case Collective::kReduceScatter:
      return reduce_scatter(algorithm, arguments);
    case Collective::kAllGather:
      return all_gather(algorithm, arguments);
    case Collective::kReduce:
      return reduce(algorithm, arguments);
    case Collective::kBroadcast:
      return broadcast(algorithm, arguments);
    case Collective::kGather:
      return gather(algorithm, arguments);
    case Collective::kScatter:
      return scatter(algorithm, arguments);
    default:  // after check_arguments()
      break;
  }
  return all_to_all(algorithm, arguments);
}

}  // namespace plait
