// Valid plans of many kinds, written by hand, for tests that need plans which do not come from src/algorithms.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plan/builder.hpp"
#include "plan/plan.hpp"

namespace plait::test {

// Ring reduce-scatter and all-gather with a slot a step; `queues` queues a rank share the chunks.
inline Plan ring_all_reduce(int ranks, int queues = 1) {
  PlanBuilder b({"zoo ring", Collective::kAllReduce, ranks, 0, ranks * queues});
  const auto mod = [&](int x) { return ((x % ranks) + ranks) % ranks; };
  for (int ring = 0; ring < queues; ++ring) {
    std::vector<QueueId> queue;
    std::vector<Place> in;
    for (int r = 0; r < ranks; ++r) {
      queue.push_back(b.add_queue(r, Engine::kCpu));
      in.push_back(b.take_scratch(r, 2 * (ranks - 1)));
    }
    std::vector<SignalId> arrived(ranks);
    for (int step = 0; step < 2 * (ranks - 1); ++step) {
      std::vector<SignalId> sent(ranks);
      for (int r = 0; r < ranks; ++r) {
        const int next = mod(r + 1), chunk = mod(r - step) + ring * ranks;
        if (step > 0) b.wait(arrived[r]);
        const Place to = slot_after(in[next], step), mine = slot_after(in[r], step - 1);
        if (step == 0) {
          b.copy(queue[r], to, input_of(r), chunk);
        } else if (step < ranks - 1) {
          b.reduce(queue[r], {to}, {mine, input_of(r)}, chunk);
        } else {
          b.reduce(queue[r], {to, output_of(r)}, step == ranks - 1 ? std::vector{mine, input_of(r)} : std::vector{mine},
                   chunk);
        }
        sent[next] = b.signal(queue[r], queue[next]);
      }
      arrived = sent;
    }
    for (int r = 0; r < ranks; ++r) {
      b.wait(arrived[r]);
      b.copy(queue[r], output_of(r), slot_after(in[r], 2 * (ranks - 1) - 1), mod(r + 2) + ring * ranks);
    }
  }
  return b.finish();
}

// All ranks tell all others that they came (or finished).
inline void meet(PlanBuilder& b, const std::vector<QueueId>& queues) {
  std::vector<SignalId> signals;
  for (const QueueId& from : queues) {
    for (const QueueId& to : queues) {
      if (from.rank != to.rank) signals.push_back(b.signal(from, to));
    }
  }
  for (const SignalId& signal : signals) b.wait(signal);
}

// One shot: every rank copies its input into a slot at every peer, then reduces all in the order of the ranks.
inline Plan one_shot_all_reduce(int ranks, int chunks = 2) {
  PlanBuilder b({"zoo one_shot", Collective::kAllReduce, ranks, 0, chunks});
  std::vector<QueueId> queues;
  std::vector<Place> slots;
  for (int r = 0; r < ranks; ++r) {
    queues.push_back(b.add_queue(r, Engine::kSm));
    slots.push_back(b.take_scratch(r, ranks * chunks));
  }
  for (int r = 0; r < ranks; ++r) {
    std::vector<Place> to;
    for (int peer = 0; peer < ranks; ++peer) to.push_back(slot_after(slots[peer], r * chunks));
    b.reduce(queues[r], to, {input_of(r)}, 0, chunks);
  }
  meet(b, queues);
  for (int r = 0; r < ranks; ++r) {
    std::vector<Place> from;
    for (int peer = 0; peer < ranks; ++peer) from.push_back(slot_after(slots[r], peer * chunks));
    b.reduce(queues[r], {output_of(r)}, from, 0, chunks);
  }
  return b.finish();
}

// Two shots within peer reach: rank r reduces chunk r from all inputs into all outputs. Right in place too: nobody else
// touches chunk r.
inline Plan direct_all_reduce(int ranks) {
  PlanBuilder b({"zoo direct", Collective::kAllReduce, ranks, 0, ranks, Access::kZeroCopy});
  std::vector<QueueId> queues;
  for (int r = 0; r < ranks; ++r) queues.push_back(b.add_queue(r, Engine::kSm));
  meet(b, queues);
  for (int r = 0; r < ranks; ++r) {
    std::vector<Place> from, to;
    for (int peer = 0; peer < ranks; ++peer) {
      from.push_back(input_of((r + peer) % ranks));
      to.push_back(output_of(peer));
    }
    b.reduce(queues[r], to, from, r);
  }
  meet(b, queues);
  return b.finish();
}

// Rank r reduces block r from all inputs within peer reach. A rank's output is its own block only.
inline Plan direct_reduce_scatter(int ranks) {
  PlanBuilder b({"zoo direct_scatter", Collective::kReduceScatter, ranks, 0, 1, Access::kZeroCopy});
  std::vector<QueueId> queues;
  for (int r = 0; r < ranks; ++r) queues.push_back(b.add_queue(r, Engine::kSm));
  meet(b, queues);
  for (int r = 0; r < ranks; ++r) {
    std::vector<Place> from;
    for (int peer = 0; peer < ranks; ++peer) from.push_back(input_of(peer));
    b.reduce(queues[r], {output_of(r)}, from, r);
  }
  meet(b, queues);
  return b.finish();
}

// The root's input runs along a chain through slots that are used again for every second chunk, so that the receiver
// has to tell when a slot is free.
inline Plan chain_broadcast(int ranks, int root, int chunks, Engine engine = Engine::kCpu, bool host = false) {
  PlanBuilder b({"zoo chain", Collective::kBroadcast, ranks, root, chunks});
  std::vector<QueueId> queues;
  std::vector<Place> slots;
  for (int i = 0; i < ranks; ++i) {
    const int r = (root + i) % ranks;
    queues.push_back(b.add_queue(r, engine));
    slots.push_back(host ? b.take_host(r, 2) : b.take_scratch(r, 2));
  }
  std::vector<std::vector<SignalId>> full(ranks, std::vector<SignalId>(chunks)), free = full;
  for (int c = 0; c < chunks; ++c) {
    for (int i = 0; i < ranks; ++i) {
      const int r = (root + i) % ranks;
      if (i > 0) b.wait(full[i][c]);
      const Place from = i == 0 ? input_of(r) : slot_after(slots[i], c % 2);
      if (i + 1 < ranks) {
        if (c >= 2) b.wait(free[i + 1][c - 2]);
        b.copy(queues[i], slot_after(slots[i + 1], c % 2), from, c);
        full[i + 1][c] = b.signal(queues[i], queues[i + 1]);
      }
      b.copy(queues[i], output_of(r), from, c);
      if (i > 0 && c + 2 < chunks) free[i][c] = b.signal(queues[i], queues[i - 1]);
    }
  }
  return b.finish();
}

// Binary tree towards the root; every inner rank reduces its children's slots and its input.
inline Plan tree_reduce(int ranks, int root) {
  PlanBuilder b({"zoo tree", Collective::kReduce, ranks, root, 1});
  std::vector<QueueId> queues;
  std::vector<Place> slots;
  for (int i = 0; i < ranks; ++i) {
    queues.push_back(b.add_queue((root + i) % ranks, Engine::kSm));
    slots.push_back(b.take_scratch((root + i) % ranks, 2));
  }
  std::vector<SignalId> up(ranks);
  for (int i = ranks - 1; i >= 0; --i) {
    const int r = (root + i) % ranks;
    std::vector<Place> from = {input_of(r)};
    for (const int child : {2 * i + 1, 2 * i + 2}) {
      if (child >= ranks) continue;
      b.wait(up[child]);
      from.push_back(slot_after(slots[i], child - 2 * i - 1));
    }
    const int parent = (i - 1) / 2;
    const Place to = i == 0 ? output_of(r) : slot_after(slots[parent], i - 2 * parent - 1);
    b.reduce(queues[i], {to}, from, 0);
    if (i > 0) up[i] = b.signal(queues[i], queues[parent]);
  }
  return b.finish();
}

// Pull within peer reach: everybody gathers from everybody's input, and nobody leaves before all are done. The own
// block is copied first: in place that stores to what the others read.
inline Plan pull_all_gather(int ranks, int chunks_per_block, Engine engine) {
  PlanBuilder b({"zoo pull", Collective::kAllGather, ranks, 0, chunks_per_block, Access::kZeroCopy});
  std::vector<QueueId> queues;
  for (int r = 0; r < ranks; ++r) queues.push_back(b.add_queue(r, engine));
  const auto gather = [&](int r, int peer) {
    b.copy(queues[r], output_of(r), input_of(peer), peer * chunks_per_block, chunks_per_block);
  };
  for (int r = 0; r < ranks; ++r) gather(r, r);
  meet(b, queues);
  for (int r = 0; r < ranks; ++r) {
    for (int i = 1; i < ranks; ++i) gather(r, (r + i) % ranks);
  }
  meet(b, queues);
  return b.finish();
}

// Every rank pushes each block's chunk to its owner's slots; two queues a rank: one pushes, one reduces.
inline Plan push_reduce_scatter(int ranks, int chunks_per_block) {
  PlanBuilder b({"zoo push", Collective::kReduceScatter, ranks, 0, chunks_per_block});
  std::vector<QueueId> push, reduce;
  std::vector<Place> slots;
  for (int r = 0; r < ranks; ++r) {
    push.push_back(b.add_queue(r, Engine::kCopy));
    reduce.push_back(b.add_queue(r, Engine::kSm));
    slots.push_back(b.take_scratch(r, ranks * chunks_per_block));
  }
  std::vector<std::vector<SignalId>> arrived(ranks);
  for (int r = 0; r < ranks; ++r) {
    for (int i = 1; i < ranks; ++i) {
      const int owner = (r + i) % ranks;
      b.copy(push[r], slot_after(slots[owner], r * chunks_per_block), input_of(r), owner * chunks_per_block,
             chunks_per_block);
      arrived[owner].push_back(b.signal(push[r], reduce[owner]));
    }
  }
  for (int r = 0; r < ranks; ++r) {
    for (const SignalId& signal : arrived[r]) b.wait(signal);
    std::vector<Place> from;
    for (int peer = 0; peer < ranks; ++peer) {
      from.push_back(peer == r ? input_of(r) : slot_after(slots[r], peer * chunks_per_block));
    }
    b.reduce(reduce[r], {output_of(r)}, from, r * chunks_per_block, chunks_per_block);
  }
  return b.finish();
}

// Two nodes: reduce within the node at its first rank, exchange by messages, reduce again in the same order on both
// sides, hand out within the node.
inline Plan two_node_all_reduce(int ranks_per_node, int chunks) {
  const int ranks = 2 * ranks_per_node;
  std::vector<int> node_of(ranks);
  for (int r = 0; r < ranks; ++r) node_of[r] = r / ranks_per_node;
  PlanBuilder b({"zoo two_nodes", Collective::kAllReduce, ranks, 0, chunks, Access::kStaged, node_of});
  std::vector<QueueId> work, net;
  std::vector<Place> local, here, there, result;
  for (int r = 0; r < ranks; ++r) {
    work.push_back(b.add_queue(r, Engine::kCpu));
    result.push_back(b.take_scratch(r, chunks));
  }
  for (int node = 0; node < 2; ++node) {
    const int leader = node * ranks_per_node;
    net.push_back(b.add_queue(leader, Engine::kNet));
    local.push_back(b.take_scratch(leader, ranks_per_node * chunks));
    here.push_back(b.take_host(leader, chunks));
    there.push_back(b.take_host(leader, chunks));
  }
  std::vector<SignalId> reduced(2), received(2);
  for (int node = 0; node < 2; ++node) {
    const int leader = node * ranks_per_node;
    std::vector<Place> from = {input_of(leader)};
    for (int i = 1; i < ranks_per_node; ++i) {
      from.push_back(slot_after(local[node], i * chunks));
      b.copy(work[leader + i], from.back(), input_of(leader + i), 0, chunks);
      b.wait(b.signal(work[leader + i], work[leader]));
    }
    b.reduce(work[leader], {here[node]}, from, 0, chunks);
    reduced[node] = b.signal(work[leader], net[node]);
    b.wait(reduced[node]);
  }
  b.send_receive(net[0], here[0], net[1], there[1], 0, chunks);
  b.send_receive(net[1], here[1], net[0], there[0], 0, chunks);
  for (int node = 0; node < 2; ++node) {
    const int leader = node * ranks_per_node;
    received[node] = b.signal(net[node], work[leader]);
    b.wait(received[node]);
    std::vector<Place> to = {output_of(leader)};
    for (int i = 1; i < ranks_per_node; ++i) to.push_back(result[leader + i]);
    b.reduce(work[leader], to, node == 0 ? std::vector{here[0], there[0]} : std::vector{there[1], here[1]}, 0, chunks);
    for (int i = 1; i < ranks_per_node; ++i) {
      b.wait(b.signal(work[leader], work[leader + i]));
      b.copy(work[leader + i], output_of(leader + i), result[leader + i], 0, chunks);
    }
  }
  return b.finish();
}

// The root's chunks go through two ranges of its own slots before they go to the others, several chunks an operation.
inline Plan staged_broadcast(int ranks, int chunks) {
  PlanBuilder b({"zoo staged", Collective::kBroadcast, ranks, 0, chunks});
  const QueueId root = b.add_queue(0, Engine::kCpu);
  const Place second = b.take_scratch(0, chunks), first = b.take_scratch(0, chunks);
  b.copy(root, first, input_of(0), 0, chunks);
  b.copy(root, second, first, 0, chunks);
  b.copy(root, output_of(0), input_of(0), 0, chunks);
  for (int r = 1; r < ranks; ++r) {
    const QueueId queue = b.add_queue(r, Engine::kCpu);
    b.wait(b.signal(root, queue));
    b.copy(queue, output_of(r), second, 0, chunks);
  }
  return b.finish();
}

// Right only with buffers apart: every rank stores its sum before its neighbour has read its input.
inline Plan swap_all_reduce(int chunks) {
  PlanBuilder b({"zoo swap", Collective::kAllReduce, 2, 0, chunks, Access::kZeroCopy});
  std::vector<QueueId> queues = {b.add_queue(0, Engine::kSm), b.add_queue(1, Engine::kSm)};
  meet(b, queues);
  for (int r = 0; r < 2; ++r) b.reduce(queues[r], {output_of(r)}, {input_of(0), input_of(1)}, 0, chunks);
  meet(b, queues);
  b.not_in_place();
  return b.finish();
}

// Every rank stores what it gives into the scratch of whoever gets it; `each` chunks from rank to rank.
inline Plan push_all_to_all(int ranks, int each) {
  PlanBuilder b({"zoo exchange", Collective::kAllToAll, ranks, 0, each});
  std::vector<QueueId> queues;
  std::vector<Place> in;
  for (int r = 0; r < ranks; ++r) {
    queues.push_back(b.add_queue(r, Engine::kCpu));
    in.push_back(b.take_scratch(r, ranks * each));
  }
  const auto block = [&](int from, int to) { return (from * ranks + to) * each; };
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      b.copy(queues[from], slot_after(in[to], from * each), input_of(from), block(from, to), each);
    }
  }
  meet(b, queues);
  for (int to = 0; to < ranks; ++to) {
    for (int from = 0; from < ranks; ++from) {
      b.copy(queues[to], output_of(to), slot_after(in[to], from * each), block(from, to), each);
    }
  }
  return b.finish();
}

inline Plan dissemination_barrier(int ranks) {
  PlanBuilder b({"zoo barrier", Collective::kBarrier, ranks});
  std::vector<QueueId> queues;
  for (int r = 0; r < ranks; ++r) queues.push_back(b.add_queue(r, Engine::kCpu));
  for (int distance = 1; distance < ranks; distance *= 2) {
    std::vector<SignalId> signals;
    for (int r = 0; r < ranks; ++r) signals.push_back(b.signal(queues[r], queues[(r + distance) % ranks]));
    for (const SignalId& signal : signals) b.wait(signal);
  }
  return b.finish();
}

inline std::vector<Plan> zoo() {
  std::vector<Plan> plans;
  plans.push_back(ring_all_reduce(2));
  plans.push_back(ring_all_reduce(3));
  plans.push_back(ring_all_reduce(4));
  plans.push_back(ring_all_reduce(3, 2));
  plans.push_back(one_shot_all_reduce(2));
  plans.push_back(one_shot_all_reduce(4));
  plans.push_back(direct_all_reduce(3));
  plans.push_back(direct_reduce_scatter(3));
  plans.push_back(chain_broadcast(3, 1, 5));
  plans.push_back(chain_broadcast(4, 0, 3, Engine::kCopy, true));
  plans.push_back(tree_reduce(6, 2));
  plans.push_back(pull_all_gather(3, 2, Engine::kCopy));
  plans.push_back(push_reduce_scatter(4, 1));
  plans.push_back(push_reduce_scatter(2, 3));
  plans.push_back(two_node_all_reduce(2, 2));
  plans.push_back(two_node_all_reduce(3, 1));
  plans.push_back(staged_broadcast(3, 4));
  plans.push_back(swap_all_reduce(2));
  plans.push_back(push_all_to_all(3, 1));
  plans.push_back(push_all_to_all(2, 3));
  plans.push_back(dissemination_barrier(5));
  return plans;
}

}  // namespace plait::test
