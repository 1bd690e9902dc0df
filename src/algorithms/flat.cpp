// Flat: every rank looks after one chunk and deals with all others directly (TEM-17, BLK-03).
#include "algorithms/flat.hpp"

#include <algorithm>
#include <utility>

#include "algorithms/arguments.hpp"
#include "algorithms/carrier.hpp"
#include "algorithms/catalog.hpp"

namespace plait {
namespace {

// Lanes and what all collectives of this file do with them. Every collective consists of rounds in which all ranks
// signal all others; between them a rank works on chunks of its own or fetches those of others, the next rank's first.
struct Flat {
  Flat(const AlgorithmArguments& the_arguments, std::string label, int64_t chunks_per_block)
      : arguments(the_arguments),
        ranks(arguments.ranks),
        peer(arguments.reach == Reach::kPeer),
        builder(start_plan(arguments, std::move(label), chunks_per_block)),
        lanes(add_lanes(builder, arguments)) {}

  // Takes scratch for the staged copy of the message on every rank; slot = chunk.
  void take_published() {
    for (int rank = 0; rank < ranks && !peer; ++rank) {
      published.push_back(builder.take_scratch(rank, builder.chunk_count()));
    }
  }

  Place published_chunk(int rank, int chunk) const { return slot_after(published[rank], chunk); }

  // Copies the chunks [first, first + ranks) of the input but the rank's own to where others can load them.
  void publish_all_but_own(int rank, int first) {
    const auto copy = [&](int chunk, int chunks) {
      if (chunks > 0) builder.copy(lanes[rank], published_chunk(rank, chunk), input_of(rank), chunk, chunks);
    };
    copy(first, rank);
    copy(first + rank + 1, ranks - rank - 1);
  }

  // That chunk of all ranks' inputs, in the order of the ranks, as `rank` can load them.
  std::vector<Place> inputs(int rank, int chunk) const {
    std::vector<Place> places;
    for (int other = 0; other < ranks; ++other) {
      places.push_back(peer || other == rank ? input_of(other) : published_chunk(other, chunk));
    }
    return places;
  }

  // All outputs, the rank's own first.
  std::vector<Place> outputs(int rank) const {
    std::vector<Place> places;
    for (int d = 0; d < ranks; ++d) places.push_back(output_of((rank + d) % ranks));
    return places;
  }

  // Everybody has called (or done what it had to) before anybody goes on.
  void meet() {
    const SignalTable signals = signal_all(builder, lanes);
    for (int rank = 0; rank < ranks; ++rank) wait_all(builder, signals, rank);
  }

  const AlgorithmArguments& arguments;
  const int ranks;
  const bool peer;
  PlanBuilder builder;
  std::vector<LaneId> lanes;
  std::vector<Place> published;
};

// Chunk q is reduced by rank q and shared. Chunk 0 of four ranks:
//
//     stage 1: r1, r2, r3 --> r0 reduces          stage 2: r0 --> r1, r2, r3          (all chunks at once, all links)
//
// Staged: publish what others reduce; fold the own chunk into the output and the free slot of the published copy; fetch
//   the others' chunks. `pipeline` parts: a part is published before the one before it is reduced (TEM-18).
//   Steps: 2 + floor(2(k-1)/3) for k parts, as a lane waits for other parts before it signals. Scratch: p slots of M/p
//   (each in `pipeline` parts).
// Peer: one fold {all outputs} <- {all inputs} between two rounds of signals. Steps: 2. No scratch, no copies.
// Bytes per rank over links: in and out 2(p-1)/p M together for each direction.
// When: medium and large messages where all ranks reach each other directly (NVSwitch, cliques, shared memory).
void staged_all_reduce(Flat& it) {
  const int parts = it.arguments.pipeline;
  it.take_published();
  std::vector<SignalTable> ready(parts), reduced(parts);
  const auto publish = [&](int part) {
    for (int rank = 0; rank < it.ranks; ++rank) it.publish_all_but_own(rank, part * it.ranks);
    ready[part] = signal_all(it.builder, it.lanes);
  };
  const auto reduce = [&](int part) {
    for (int rank = 0; rank < it.ranks; ++rank) {
      const int chunk = part * it.ranks + rank;
      wait_all(it.builder, ready[part], rank);
      std::vector<Place> results = {output_of(rank)};
      if (it.ranks > 1) results.push_back(it.published_chunk(rank, chunk));
      it.builder.fold(it.lanes[rank], results, it.inputs(rank, chunk), chunk);
    }
    reduced[part] = signal_all(it.builder, it.lanes);
  };
  const auto collect = [&](int part) {
    for (int rank = 0; rank < it.ranks; ++rank) {
      for (int d = 1; d < it.ranks; ++d) {
        const int owner = (rank + d) % it.ranks;
        const int chunk = part * it.ranks + owner;
        wait_one(it.builder, reduced[part], rank, owner);
        it.builder.copy(it.lanes[rank], output_of(rank), it.published_chunk(owner, chunk), chunk);
      }
    }
  };
  for (int turn = 0; turn < parts + 2; ++turn) {
    if (turn < parts) publish(turn);
    if (turn >= 1 && turn <= parts) reduce(turn - 1);
    if (turn >= 2) collect(turn - 2);
  }
}

void peer_all_reduce(Flat& it) {
  it.meet();
  for (int rank = 0; rank < it.ranks; ++rank) {
    it.builder.fold(it.lanes[rank], it.outputs(rank), it.inputs(rank, rank), rank);
  }
  it.meet();
}

// Stage 1 alone: rank q folds block q of all inputs. Steps: 1; peer 2 (nobody may return while others read its input).
// Bytes read per rank from others: p-1 blocks. Scratch: staged p slots of a block.
Plan reduce_scatter(const AlgorithmArguments& arguments, std::string label) {
  Flat it(arguments, std::move(label), 1);
  it.take_published();
  for (int rank = 0; rank < it.ranks && !it.peer; ++rank) it.publish_all_but_own(rank, 0);
  it.meet();
  for (int rank = 0; rank < it.ranks; ++rank) {
    it.builder.fold(it.lanes[rank], {output_of(rank)}, it.inputs(rank, rank), rank);
  }
  if (it.peer) it.meet();
  return it.builder.finish();
}

// Stage 2 alone. Staged: publish the own block, fetch the others'. Steps: 1. Scratch: 1 slot of a block.
// Peer: store the own block to all outputs between two rounds of signals. Steps: 2. No scratch.
// Bytes per rank over links: p-1 blocks.
Plan all_gather(const AlgorithmArguments& arguments, std::string label) {
  Flat it(arguments, std::move(label), 1);
  if (it.peer) {
    it.meet();
    for (int rank = 0; rank < it.ranks; ++rank) {
      it.builder.fold(it.lanes[rank], it.outputs(rank), {input_of(rank)}, rank);
    }
    it.meet();
    return it.builder.finish();
  }
  std::vector<Place> published;
  for (int rank = 0; rank < it.ranks; ++rank) {
    std::vector<Place> places = {output_of(rank)};
    if (it.ranks > 1) places.push_back(published.emplace_back(it.builder.take_scratch(rank)));
    it.builder.fold(it.lanes[rank], places, {input_of(rank)}, rank);
  }
  const SignalTable ready = signal_all(it.builder, it.lanes);
  for (int rank = 0; rank < it.ranks; ++rank) {
    for (int d = 1; d < it.ranks; ++d) {
      const int owner = (rank + d) % it.ranks;
      wait_one(it.builder, ready, rank, owner);
      it.builder.copy(it.lanes[rank], output_of(rank), published[owner], owner);
    }
  }
  return it.builder.finish();
}

// Rank q folds chunk q of all inputs, and the root gets it. Steps: 2.
// Bytes: every rank reads (p-1)/p M; the root takes in as much again. Scratch: staged p slots of M/p, peer none.
Plan reduce(const AlgorithmArguments& arguments, std::string label) {
  Flat it(arguments, std::move(label), arguments.ranks);
  const int root = arguments.root;
  it.take_published();
  for (int rank = 0; rank < it.ranks && !it.peer; ++rank) it.publish_all_but_own(rank, 0);
  it.meet();
  for (int rank = 0; rank < it.ranks; ++rank) {
    const bool straight = it.peer || rank == root;
    it.builder.fold(it.lanes[rank], {straight ? output_of(root) : it.published_chunk(rank, rank)},
                    it.inputs(rank, rank), rank);
  }
  if (it.peer) {
    it.meet();
    return it.builder.finish();
  }
  std::vector<SignalId> reduced;
  for (int d = 1; d < it.ranks; ++d) {
    reduced.push_back(it.builder.signal(it.lanes[(root + d) % it.ranks], it.lanes[root]));
  }
  for (int d = 1; d < it.ranks; ++d) {
    const int owner = (root + d) % it.ranks;
    it.builder.wait(reduced[d - 1]);
    it.builder.copy(it.lanes[root], output_of(root), it.published_chunk(owner, owner), owner);
  }
  return it.builder.finish();
}

// Every rank but the root fetches a part of its own from the root and shares it with the others (BLK-03: p-1 trees of
// depth two, on four ranks M/3 over every link instead of M/2 with two rings).
//
//     root --0--> r1 --0--> r2, r3      root --1--> r2 --1--> r1, r3      root --2--> r3 --2--> r1, r2
//
// Steps: 2 (1 with two ranks and staged). Bytes: every rank but the root takes in M, the root gives M.
// Scratch: staged p-1 slots of M/(p-1) at the root and 1 at the others; peer none.
Plan broadcast(const AlgorithmArguments& arguments, std::string label) {
  const int owners = std::max(arguments.ranks - 1, 1);
  Flat it(arguments, std::move(label), owners);
  const int root = arguments.root;
  const auto owner = [&](int chunk) { return (root + 1 + chunk) % it.ranks; };
  PlanBuilder& builder = it.builder;
  if (it.ranks == 1) {
    builder.copy(it.lanes[0], output_of(0), input_of(0), 0);
    return builder.finish();
  }
  if (it.peer) {
    // Before the first signals: where input and output are the same memory, nobody may read while this writes.
    builder.copy(it.lanes[root], output_of(root), input_of(root), 0, owners);
    it.meet();
    for (int chunk = 0; chunk < owners; ++chunk) {
      std::vector<Place> outputs;
      for (int d = 0; d < owners; ++d) outputs.push_back(output_of(owner((chunk + d) % owners)));
      builder.fold(it.lanes[owner(chunk)], outputs, {input_of(root)}, chunk);
    }
    it.meet();
    return builder.finish();
  }
  const Place source = builder.take_scratch(root, owners);
  std::vector<LaneId> others;  // by the chunk they look after
  std::vector<Place> shared;
  for (int chunk = 0; chunk < owners; ++chunk) {
    others.push_back(it.lanes[owner(chunk)]);
    builder.fold(it.lanes[root], {slot_after(source, chunk), output_of(root)}, {input_of(root)}, chunk);
    builder.wait(builder.signal(it.lanes[root], others[chunk]));
    std::vector<Place> places = {output_of(owner(chunk))};
    if (owners > 1) places.push_back(shared.emplace_back(builder.take_scratch(owner(chunk))));
    builder.fold(others[chunk], places, {slot_after(source, chunk)}, chunk);
  }
  const SignalTable ready = signal_all(builder, others);
  for (int i = 0; i < owners; ++i) {
    for (int d = 1; d < owners; ++d) {
      const int chunk = (i + d) % owners;
      wait_one(builder, ready, i, chunk);
      builder.copy(others[i], output_of(owner(i)), shared[chunk], chunk);
    }
  }
  return builder.finish();
}

// Everybody signals everybody. Steps: 1.
Plan barrier(const AlgorithmArguments& arguments, std::string label) {
  Flat it(arguments, std::move(label), 1);
  it.meet();
  return it.builder.finish();
}

Plan make_flat(const AlgorithmArguments& arguments) {
  check_arguments(flat(), arguments);
  check_one_node(flat(), arguments);
  const std::string plain = label(flat(), "", 1);
  switch (arguments.collective) {
    case Collective::kAllReduce:
      return flat_all_reduce(arguments, plain);
    case Collective::kReduceScatter:
      return reduce_scatter(arguments, plain);
    case Collective::kAllGather:
      return all_gather(arguments, plain);
    case Collective::kReduce:
      return reduce(arguments, plain);
    case Collective::kBroadcast:
      return broadcast(arguments, plain);
    default:  // a barrier, after check_arguments()
      break;
  }
  return barrier(arguments, plain);
}

}  // namespace

Plan flat_all_reduce(const AlgorithmArguments& arguments, std::string label) {
  const bool peer = arguments.reach == Reach::kPeer;
  Flat it(arguments, std::move(label), int64_t{arguments.ranks} * (peer ? 1 : arguments.pipeline));
  if (peer) {
    peer_all_reduce(it);
  } else {
    staged_all_reduce(it);
  }
  return it.builder.finish();
}

Algorithm flat() {
  return {"flat",
          "each rank looks after one chunk and deals with all others directly; one or two steps",
          "TEM-17, TEM-18, BLK-03, NVG-47",
          {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast, Collective::kReduceScatter,
           Collective::kAllGather, Collective::kBarrier},
          make_flat};
}

}  // namespace plait
