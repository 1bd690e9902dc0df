// Flat: every rank owns one chunk and exchanges it with all others directly (TEM-17, BLK-03, NVG-88).
#include <algorithm>
#include <utility>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/exchange.hpp"
#include "algorithms/steps/most_stored.hpp"
#include "algorithms/steps/moves.hpp"

namespace plait {

Algorithm flat();

namespace {

// Rank q combines chunk q and shares it, or does one of the two (PieceExchange), or each chunk goes straight to the
// ranks that need it (moves.hpp):
//
//     stage 1: r1, r2, r3 --> r0 combines          stage 2: r0 --> r1, r2, r3          (all chunks at once, all links)
//
// Steps: all_reduce, reduce and broadcast 2 (over two ranks, reduce and broadcast by store 1, and broadcast by load);
//   the others 1. Zero-copy, in which ranks first signal that they were called and in the end that they are done: 2, by
//   load all_reduce 3. An all_reduce by load in k parts has 2 + floor(2(k-1)/3), as a queue waits for other parts
//   before it signals.
// Bytes: all_reduce 2(p-1)/p M in and out of every rank; collectives with blocks of ranks, p-1 blocks at a rank that
//   gives or gets all; reduce and broadcast: below.
// Scratch: below, and in the headers of the steps; zero-copy none.
// When: medium and large messages if all ranks access each other directly (NVSwitch, cliques, shared memory): on CPUs
//   by load, between GPUs by store, and zero-copy from some MiB on, if user buffers are mapped.
// parts: of an all_reduce by load, each published ahead of the one before it (TEM-18); by store 2 have a queue for each
//   step; by both one part is loaded.

struct Flat {
  explicit Flat(const AlgorithmArguments& the_arguments, int64_t chunks_per_block)
      : arguments(the_arguments),
        ranks(arguments.ranks),
        root(arguments.root),
        builder(start_plan(flat(), arguments, chunks_per_block)),
        queues(add_queues(builder, arguments)),
        stages(builder, queues, arguments.engine, arguments.direction == Direction::kStore && arguments.parts > 1) {}

  // A slot on each rank for every other rank: [to][from]. Own entries are never used.
  std::vector<std::vector<Place>> take_inboxes() {
    builder.expect(int64_t{ranks - 1} * (ranks - 1));  // what fills them
    std::vector<std::vector<Place>> inboxes(ranks, std::vector<Place>(ranks));
    for (int to = 0; to < ranks; ++to) {
      for (int from = 0; from < ranks; ++from) {
        if (from != to) inboxes[to][from] = builder.take_scratch(to);
      }
    }
    return inboxes;
  }

  const AlgorithmArguments& arguments;
  const int ranks, root;
  PlanBuilder builder;
  std::vector<QueueId> queues;
  Stages stages;
};

Plan flat_all_reduce(const AlgorithmArguments& arguments) {
  const int parts = arguments.direction == Direction::kLoad ? arguments.parts : 1;
  Flat it(arguments, int64_t{arguments.ranks} * parts);
  exchange_all_reduce(it.builder, it.stages, arguments.direction, parts);
  return it.builder.finish();
}

// The first stage alone, or the second.
Plan flat_half(const AlgorithmArguments& arguments) {
  const bool scatters = arguments.collective == Collective::kReduceScatter;
  Flat it(arguments, 1);
  HeldByRank held = all_inputs(it.ranks);
  PieceExchange exchange(it.builder, it.stages,
                         {.direction = arguments.direction, .scatters = scatters, .gathers = !scatters});
  if (scatters) {
    exchange.reduce_scatter(held);
    exchange.store(held, to_outputs());
  } else {
    exchange.all_gather(held, to_outputs());
  }
  return it.builder.finish();
}

// Rank q combines chunk q, and the root gets it.
//
// Bytes: every rank reads (p-1)/p M, and the root receives as much again. Scratch: p slots of M/p.
Plan flat_reduce_by_load(const AlgorithmArguments& arguments) {
  Flat it(arguments, arguments.ranks);
  HeldByRank held = all_inputs(it.ranks);
  PieceExchange exchange(it.builder, it.stages, {});
  exchange.reduce_scatter(held);
  for (int rank = 0; rank < it.ranks; ++rank) {
    exchange.await(rank);
    const Place result = rank == it.root ? output_of(rank) : exchange.shared(rank).at(rank);
    it.builder.reduce(it.queues[rank], {result}, places_at(held[rank], rank), rank);
  }
  std::vector<SignalId> reduced;
  for (int d = 1; d < it.ranks; ++d) {
    reduced.push_back(it.builder.signal(it.queues[(it.root + d) % it.ranks], it.queues[it.root]));
  }
  for (int d = 1; d < it.ranks; ++d) {
    const int owner = (it.root + d) % it.ranks;
    it.builder.wait(reduced[d - 1]);
    it.builder.copy(it.queues[it.root], output_of(it.root), exchange.shared(owner).at(owner), owner);
  }
  return it.builder.finish();
}

// The ranks other than the root, from the root on. The c-th of them owns chunk c.
std::vector<int> owners_of(int ranks, int root) {
  std::vector<int> owners;
  for (int d = 1; d < ranks; ++d) owners.push_back((root + d) % ranks);
  return owners;
}

Plan copy_alone(Flat& it) {
  it.builder.copy(it.queues[0], output_of(0), input_of(0), 0);
  return it.builder.finish();
}

// Chunk c goes to its owner, which combines it and stores the result at the root.
//
// With one queue a rank, every rank owns a chunk, including the root. The stages follow each other, and (p-1)/p M cross
// the busiest link in each. With a queue for each step, the stages are under way at once. The root then owns nothing,
// so that its incoming link carries M and not 2(p-1)/p M. With two ranks the root combines by itself.
//
// Bytes: every rank stores up to M. Scratch: up to 2(p-1) slots of M/p on the root, and p-1 on the others.
Plan flat_reduce_by_store(const AlgorithmArguments& arguments) {
  const int ranks = arguments.ranks, root = arguments.root;
  std::vector<int> owners = ranks == 2 ? std::vector<int>{} : owners_of(ranks, root);
  if (ranks <= 2 || arguments.parts == 1) owners.insert(owners.begin(), root);
  const int chunks = static_cast<int>(owners.size());
  Flat it(arguments, chunks);
  if (ranks == 1) return copy_alone(it);
  const auto inboxes = it.take_inboxes();
  const auto stores = [&](int rank, const auto& act) {
    for (int d = 0; d < chunks; ++d) {
      const int chunk = (rank + d) % chunks;
      if (owners[chunk] != rank) act(chunk);
    }
  };
  for (int rank = 0; rank < ranks; ++rank) {
    stores(rank,
           [&](int chunk) { it.builder.copy(it.queues[rank], inboxes[owners[chunk]][rank], input_of(rank), chunk); });
  }
  std::vector<std::vector<SignalId>> ready(chunks);
  for (int rank = 0; rank < ranks; ++rank) {
    stores(rank, [&](int chunk) {
      ready[chunk].push_back(it.builder.signal(it.queues[rank], it.stages.queue(owners[chunk], 1)));
    });
  }
  std::vector<Place> results(chunks);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const int owner = owners[chunk];
    // If the root owns nothing, its inboxes are free for results.
    results[chunk] = owner == root            ? output_of(root)
                     : owners.front() == root ? it.builder.take_scratch(root)
                                              : inboxes[root][owner];
    for (const SignalId& signal : ready[chunk]) it.builder.wait(signal);
    std::vector<Place> contributions = inboxes[owner];
    contributions[owner] = input_of(owner);
    it.builder.reduce(it.stages.queue(owner, 1), {results[chunk]}, contributions, chunk);
  }
  for (int chunk = 0; chunk < chunks; ++chunk) {
    if (owners[chunk] == root) continue;
    it.builder.wait(it.builder.signal(it.stages.queue(owners[chunk], 1), it.stages.queue(root, 2)));
    it.builder.copy(it.stages.queue(root, 2), output_of(root), results[chunk], chunk);
  }
  return it.builder.finish();
}

// Every rank but the root gets a part of its own from the root and shares it with the others. These are p-1 trees of
// depth two (BLK-03). On four ranks every link carries M/3, where two rings would need M/2.
//
//     root --0--> r1 --0--> r2, r3      root --1--> r2 --1--> r1, r3      root --2--> r3 --2--> r1, r2
//
// Bytes: the root gives M, and every other rank receives M. Scratch: p-1 slots of M/(p-1) at the root, 1 at the others.
Plan flat_broadcast_by_load(const AlgorithmArguments& arguments) {
  const std::vector<int> owners = owners_of(arguments.ranks, arguments.root);
  Flat it(arguments, std::max(1, arguments.ranks - 1));
  if (it.ranks == 1) return copy_alone(it);
  const Place source = it.builder.take_scratch(it.root, static_cast<int>(owners.size()));
  std::vector<QueueId> others;
  HeldByRank held(it.ranks);
  for (const int owner : owners) {
    others.push_back(it.queues[owner]);
    held[owner] = {{source}};
  }
  for (size_t chunk = 0; chunk < others.size(); ++chunk) {
    const int c = static_cast<int>(chunk);
    it.builder.reduce(it.queues[it.root], {slot_after(source, c), output_of(it.root)}, {input_of(it.root)}, c);
    it.builder.wait(it.builder.signal(it.queues[it.root], others[chunk]));
  }
  Stages stages(it.builder, others, arguments.engine, false);
  PieceExchange exchange(it.builder, stages, {.scatters = false});
  exchange.all_gather(held, to_outputs());
  return it.builder.finish();
}

// The same broadcast by store: the root stores chunk c at its owner, which shares it with the others.
//
// Bytes: the root stores M, every other rank (p-2)/(p-1) M. Scratch: p-1 slots of M/(p-1) on every rank but the root.
Plan flat_broadcast_by_store(const AlgorithmArguments& arguments) {
  const std::vector<int> owners = owners_of(arguments.ranks, arguments.root);
  const int chunks = std::max(1, arguments.ranks - 1);
  Flat it(arguments, chunks);
  if (it.ranks == 1) return copy_alone(it);
  PlanBuilder& builder = it.builder;
  Stages& stages = it.stages;
  const auto slot = [&](int rank, int chunk) { return slot_after({rank, Buffer::kScratch, 0}, chunk); };
  for (const int rank : owners) builder.take_scratch(rank, chunks);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    builder.copy(it.queues[it.root], slot(owners[chunk], chunk), input_of(it.root), chunk);
  }
  std::vector<SignalId> given;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    given.push_back(builder.signal(it.queues[it.root], stages.queue(owners[chunk], 1)));
  }
  builder.copy(it.queues[it.root], output_of(it.root), input_of(it.root), 0, chunks);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const int owner = owners[chunk];
    builder.wait(given[chunk]);
    std::vector<Place> places = {output_of(owner)};
    for (int d = 1; d < chunks; ++d) places.push_back(slot(owners[(chunk + d) % chunks], chunk));
    builder.reduce(stages.queue(owner, 1), places, {slot(owner, chunk)}, chunk);
  }
  std::vector<std::vector<SignalId>> shared(chunks);  // [chunk][d - 1]: to the d-th owner after the chunk's
  for (int d = 1; d < chunks; ++d) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const int to = owners[(chunk + d) % chunks];
      shared[chunk].push_back(builder.signal(stages.queue(owners[chunk], 1), stages.queue(to, 2)));
    }
  }
  for (int i = 0; i < chunks; ++i) {
    for (int d = 1; d < chunks; ++d) {
      const int chunk = (i + d) % chunks;
      builder.wait(shared[chunk][wrap(i - chunk, chunks) - 1]);
      builder.copy(stages.queue(owners[i], 2), output_of(owners[i]), slot(owners[i], chunk), chunk);
    }
  }
  return builder.finish();
}

// Gather, scatter and all_to_all.
Plan flat_moves(const AlgorithmArguments& arguments) {
  Flat it(arguments, 1);
  move_by_store(it.builder, arguments, it.stages);
  return it.builder.finish();
}

bool only_moves_blocks(Collective collective) {
  return collective == Collective::kGather || collective == Collective::kScatter || collective == Collective::kAllToAll;
}

Plan flat_staged(const AlgorithmArguments& arguments) {
  const bool by_store = arguments.direction == Direction::kStore;
  if (only_moves_blocks(arguments.collective) && !by_store) {
    refuse(flat(), "has no plan by load of ", name(arguments.collective), " but a zero-copy one; use flat(store)");
  }
  switch (arguments.collective) {
    case Collective::kAllReduce:
      return flat_all_reduce(arguments);
    case Collective::kReduceScatter:
    case Collective::kAllGather:
      return flat_half(arguments);
    case Collective::kReduce:
      return by_store ? flat_reduce_by_store(arguments) : flat_reduce_by_load(arguments);
    case Collective::kBroadcast:
      return by_store ? flat_broadcast_by_store(arguments) : flat_broadcast_by_load(arguments);
    default:  // collectives that move blocks
      break;
  }
  return flat_moves(arguments);
}

// The rank that has combined or has to pass on a chunk stores it straight into the outputs of all that need it.
Plan flat_zero_copy_store(const AlgorithmArguments& arguments) {
  const Collective collective = arguments.collective;
  if (collective == Collective::kReduceScatter || only_moves_blocks(collective)) {
    refuse(flat(), "has no zero-copy plan by store of ", name(collective), "; use flat(load, zero_copy)");
  }
  const bool broadcasts = collective == Collective::kBroadcast;
  const std::vector<int> owners = owners_of(arguments.ranks, arguments.root);
  const int chunks = broadcasts ? std::max(1, arguments.ranks - 1) : arguments.ranks;
  Flat it(arguments, collective == Collective::kAllGather ? 1 : chunks);
  if (collective == Collective::kAllReduce) {
    zero_copy_all_reduce(it.builder, it.queues);
    return it.builder.finish();
  }
  if (broadcasts && it.ranks == 1) return copy_alone(it);
  // Before the first signals: if input and output are the same memory, no rank may read while this writes.
  if (broadcasts) it.builder.copy(it.queues[it.root], output_of(it.root), input_of(it.root), 0, chunks);
  barrier_among(it.builder, it.queues);
  std::vector<QueueId> others;
  for (const int owner : owners) others.push_back(it.queues[owner]);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    if (broadcasts) {
      it.builder.reduce(others[chunk], outputs_from(others, chunk), {input_of(it.root)}, chunk);
    } else if (collective == Collective::kReduce) {
      it.builder.reduce(it.queues[chunk], {output_of(it.root)}, inputs_of(it.queues), chunk);
    } else {
      it.builder.reduce(it.queues[chunk], outputs_from(it.queues, chunk), {input_of(chunk)}, chunk);
    }
  }
  barrier_among(it.builder, it.queues);
  return it.builder.finish();
}

// Makes a plan for copy engines, which copy from one place to one place and take no SM from other kernels, or for a few
// SMs, which also do the combining.
Plan flat_zero_copy_load(const AlgorithmArguments& arguments) {
  const Collective collective = arguments.collective;
  if (collective == Collective::kReduce) {
    refuse(flat(), "has no zero-copy plan by load of a reduce; use flat(store, zero_copy)");
  }
  const bool combines = reduces(collective) && arguments.ranks > 1;
  const bool in_chunks = combines && collective == Collective::kAllReduce;
  PlanBuilder builder = start_plan(flat(), arguments, in_chunks ? arguments.ranks : 1);
  if (combines) {
    combine_by_zero_copy_load(builder, arguments);
  } else {
    move_by_zero_copy_load(builder, arguments);
  }
  return builder.finish();
}

constexpr int kPartsOfBoth = 4;  // one of which is loaded, if the arguments leave parts at 1

Plan flat_both(const AlgorithmArguments& arguments) {
  if (arguments.access == Access::kZeroCopy) refuse(flat(), "has no zero-copy plan by both; use flat(load, zero_copy)");
  AlgorithmArguments cut = arguments;
  if (cut.parts == 1) cut.parts = kPartsOfBoth;
  PlanBuilder builder = start_plan(flat(), cut, cut.parts);
  store_most_and_load_rest(builder, cut);
  return builder.finish();
}

Plan flat_barrier(const AlgorithmArguments& arguments) {
  Flat it(arguments, 1);
  barrier_among(it.builder, it.queues);
  return it.builder.finish();
}

void check_flat_parts(const AlgorithmArguments& arguments) {
  const Collective collective = arguments.collective;
  const bool zero_copy = arguments.access == Access::kZeroCopy;
  const bool by_load = arguments.direction == Direction::kLoad;
  if (arguments.direction == Direction::kStore && !zero_copy) check_queue_a_step(flat(), arguments);
  if (arguments.parts == 1 || (!zero_copy && (!by_load || collective == Collective::kAllReduce))) return;
  refuse(flat(), "has no parts in ", zero_copy ? "a zero-copy plan" : "a plan by load", " of ", name(collective),
         ", and ", arguments.parts, " are asked for");
}

Plan make_flat(const AlgorithmArguments& arguments) {
  check_arguments(flat(), arguments);
  check_one_node(flat(), arguments);
  if (arguments.collective == Collective::kBarrier) return flat_barrier(arguments);
  check_flat_parts(arguments);
  if (arguments.direction == Direction::kBoth) return flat_both(arguments);
  if (arguments.access == Access::kStaged) return flat_staged(arguments);
  return arguments.direction == Direction::kLoad ? flat_zero_copy_load(arguments) : flat_zero_copy_store(arguments);
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
  if (collective == Collective::kReduceScatter || only_moves_blocks(collective)) return all;
  all.push_back(with(machine, Direction::kStore, 1, machine.engine));
  return all;
}

std::vector<AlgorithmArguments> flat_candidates(const AlgorithmArguments& given) {
  if (!on_one_node(given)) return {};
  const AlgorithmArguments machine = with_parts(given, {1})[0];
  const Collective collective = machine.collective;
  const bool zero_copy = machine.access == Access::kZeroCopy;
  if (collective == Collective::kBarrier) return zero_copy ? std::vector<AlgorithmArguments>{} : std::vector{machine};
  if (zero_copy) return zero_copy_candidates(machine);
  std::vector<AlgorithmArguments> by_load, all;
  if (!only_moves_blocks(collective)) by_load.push_back(with(machine, Direction::kLoad, 1, machine.engine));
  if (collective == Collective::kAllReduce) by_load.push_back(with(machine, Direction::kLoad, 4, machine.engine));
  for (const int parts : {1, 2}) all.push_back(with(machine, Direction::kStore, parts, machine.engine));
  for (const int parts : {kPartsOfBoth, 2}) all.push_back(with(machine, Direction::kBoth, parts, machine.engine));
  all.insert(on_gpus(machine) ? all.end() : all.begin(), by_load.begin(), by_load.end());
  return all;
}

}  // namespace

Algorithm flat() {
  return {.name = "flat",
          .summary = "each rank owns one chunk and exchanges it with all others directly; one or two steps",
          .source = "TEM-17, TEM-18, BLK-03, NVG-47, NVG-88",
          .collectives = {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast,
                          Collective::kReduceScatter, Collective::kAllGather, Collective::kGather, Collective::kScatter,
                          Collective::kAllToAll, Collective::kBarrier},
          .uses = {.direction = true, .both = true, .parts = true, .zero_copy = true, .engine = true},
          .make = make_flat,
          .candidates = flat_candidates};
}

}  // namespace plait
