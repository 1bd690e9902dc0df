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
  Flat(const Algorithm& algorithm, const AlgorithmArguments& the_arguments, int64_t chunks_per_block)
      : arguments(the_arguments),
        ranks(arguments.ranks),
        peer(arguments.reach == Reach::kPeer),
        builder(start_plan(algorithm, arguments, chunks_per_block)),
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
//   the others' chunks. parts: a part is published before the one before it is reduced (TEM-18).
//   Steps: 2 + floor(2(k-1)/3) for k parts, as a lane waits for other parts before it signals. Scratch: p slots of M/p
//   (each in parts).
// Peer: one fold {all outputs} <- {all inputs} between two rounds of signals. Steps: 2. No scratch, no copies.
// Bytes per rank over links: in and out 2(p-1)/p M together for each direction.
// When: medium and large messages where all ranks reach each other directly (NVSwitch, cliques, shared memory).
void staged_all_reduce(Flat& it) {
  const int parts = it.arguments.parts;
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
Plan flat_reduce_scatter(const AlgorithmArguments& arguments) {
  Flat it(flat(), arguments, 1);
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
Plan flat_all_gather(const AlgorithmArguments& arguments) {
  Flat it(flat(), arguments, 1);
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
Plan flat_reduce(const AlgorithmArguments& arguments) {
  Flat it(flat(), arguments, arguments.ranks);
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
Plan flat_broadcast(const AlgorithmArguments& arguments) {
  const int owners = std::max(arguments.ranks - 1, 1);
  Flat it(flat(), arguments, owners);
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
Plan flat_barrier(const AlgorithmArguments& arguments) {
  Flat it(flat(), arguments, 1);
  it.meet();
  return it.builder.finish();
}

bool gathers_or_scatters_only(Collective collective) {
  return collective == Collective::kGather || collective == Collective::kScatter || collective == Collective::kAllToAll;
}

// What the plans by load and the zero-copy ones by store have in common: they are made alike where reach differs.
Plan flat_by_load(const AlgorithmArguments& arguments) {
  switch (arguments.collective) {
    case Collective::kAllReduce:
      return flat_all_reduce(flat(), arguments);
    case Collective::kReduceScatter:
      return flat_reduce_scatter(arguments);
    case Collective::kAllGather:
      return flat_all_gather(arguments);
    case Collective::kReduce:
      return flat_reduce(arguments);
    case Collective::kBroadcast:
      return flat_broadcast(arguments);
    default:  // gather, scatter and all_to_all, after check_arguments()
      break;
  }
  refuse(flat(), "has no plan by load of ", name(arguments.collective), " but a zero-copy one; use flat(store)");
}

// Whoever has combined a chunk, or has to pass it on, stores it straight into the outputs of all who need it.
Plan flat_by_zero_copy_store(const AlgorithmArguments& arguments) {
  const Collective collective = arguments.collective;
  if (collective == Collective::kReduceScatter || gathers_or_scatters_only(collective)) {
    refuse(flat(), "has no zero-copy plan by store of ", name(collective), "; use flat(load, zero_copy)");
  }
  return flat_by_load(arguments);
}

bool has_parts(const AlgorithmArguments& arguments) {
  if (arguments.direction != Direction::kLoad) return arguments.reach != Reach::kPeer;
  return arguments.collective == Collective::kAllReduce && arguments.reach != Reach::kPeer;
}

Plan make_flat(const AlgorithmArguments& arguments) {
  check_arguments(flat(), arguments);
  check_one_node(flat(), arguments);
  if (arguments.collective == Collective::kBarrier) return flat_barrier(arguments);
  const bool zero_copy = arguments.reach == Reach::kPeer;
  if (arguments.parts > 1 && !has_parts(arguments)) {
    refuse(flat(), "has no parts in ", zero_copy ? "a zero-copy plan" : "a plan by load", " of ",
           name(arguments.collective), ", and ", arguments.parts, " are asked for");
  }
  switch (arguments.direction) {
    case Direction::kLoad:
      return zero_copy ? flat_by_zero_copy_load(flat(), arguments) : flat_by_load(arguments);
    case Direction::kStore:
      return zero_copy ? flat_by_zero_copy_store(arguments) : flat_by_store(flat(), arguments);
    case Direction::kBoth:
      break;
  }
  if (zero_copy) refuse(flat(), "has no zero-copy plan by both; use flat(load, zero_copy)");
  return flat_by_both(flat(), arguments);
}

AlgorithmArguments with(AlgorithmArguments machine, Direction direction, int parts, Engine engine) {
  machine.direction = direction;
  machine.parts = parts;
  machine.engine = engine;
  return machine;
}

std::vector<AlgorithmArguments> zero_copy_candidates(const AlgorithmArguments& machine) {
  const Collective collective = machine.collective;
  std::vector<AlgorithmArguments> all;
  if (collective != Collective::kReduce) {
    if (on_gpus(machine)) all.push_back(with(machine, Direction::kLoad, 1, Engine::kCopy));
    all.push_back(with(machine, Direction::kLoad, 1, machine.engine));
  }
  if (collective == Collective::kReduceScatter || gathers_or_scatters_only(collective)) return all;
  all.push_back(with(machine, Direction::kStore, 1, machine.engine));
  return all;
}

std::vector<AlgorithmArguments> flat_candidates(const AlgorithmArguments& given) {
  if (!on_one_node(given)) return {};
  const AlgorithmArguments machine = with_parts(given, {1})[0];
  const Collective collective = machine.collective;
  const bool zero_copy = machine.reach == Reach::kPeer;
  if (collective == Collective::kBarrier) return zero_copy ? std::vector<AlgorithmArguments>{} : std::vector{machine};
  if (zero_copy) return zero_copy_candidates(machine);
  std::vector<AlgorithmArguments> by_load, all;
  if (!gathers_or_scatters_only(collective)) by_load.push_back(with(machine, Direction::kLoad, 1, machine.engine));
  if (collective == Collective::kAllReduce) by_load.push_back(with(machine, Direction::kLoad, 4, machine.engine));
  for (const int parts : {1, 2}) all.push_back(with(machine, Direction::kStore, parts, machine.engine));
  all.push_back(with(machine, Direction::kBoth, kPartsOfBoth, machine.engine));
  all.insert(on_gpus(machine) ? all.end() : all.begin(), by_load.begin(), by_load.end());
  return all;
}

}  // namespace

Plan flat_all_reduce(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  const bool peer = arguments.reach == Reach::kPeer;
  Flat it(algorithm, arguments, int64_t{arguments.ranks} * (peer ? 1 : arguments.parts));
  if (peer) {
    peer_all_reduce(it);
  } else {
    staged_all_reduce(it);
  }
  return it.builder.finish();
}

Algorithm flat() {
  return {.name = "flat",
          .summary = "each rank looks after one chunk and deals with all others directly; one or two steps",
          .source = "TEM-17, TEM-18, BLK-03, NVG-47",
          .collectives = {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast,
                          Collective::kReduceScatter, Collective::kAllGather, Collective::kGather, Collective::kScatter,
                          Collective::kAllToAll, Collective::kBarrier},
          .uses = {.direction = true, .both = true, .parts = true, .zero_copy = true, .engine = true},
          .make = make_flat,
          .candidates = flat_candidates};
}

}  // namespace plait
