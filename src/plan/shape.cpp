// Looks at every operation of a plan.
#include "plan/shape.hpp"

#include <algorithm>
#include <vector>

namespace plait {
namespace {

// The slots of scratch and chunks of output that have been written, on every rank. Each is a bit, since plans have many
// millions.
class Written {
 public:
  explicit Written(const Plan& plan) : plan_(plan), bits_(plan.ranks.size()) {}

  // False if one of them was written before.
  bool add(const Place& place, int chunk, int chunks) {
    const int slots = plan_.ranks[place.rank].scratch_slots;
    std::vector<bool>& bits = bits_[place.rank];
    if (bits.empty()) bits.resize(static_cast<size_t>(slots) + plan_.chunk_count());
    const auto first = bits.begin() + (place.buffer == Buffer::kScratch ? place.slot : slots + chunk);
    if (std::find(first, first + chunks, true) != first + chunks) return false;
    std::fill(first, first + chunks, true);
    return true;
  }

 private:
  const Plan& plan_;
  std::vector<std::vector<bool>> bits_;  // of each rank: its slots, then its chunks
};

// Whether data can carry its own flags. One rank writes each slot of scratch, once and as a whole, and only its owner
// reads it. Every result is written once, and there is data.
bool writes_once(const Plan& plan) {
  Written written(plan);
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    if (plan.ranks[rank].host_slots > 0) return false;
    for (const Operation& operation : plan.ranks[rank].queues[0].operations) {
      if (operation.kind != OpKind::kReduce) continue;
      for (const Place& place : operation.sources) {
        if (place.rank != rank) return false;
      }
      for (const Place& place : operation.destinations) {
        if (place.rank != rank && place.buffer != Buffer::kScratch) return false;
        if (!written.add(place, operation.chunk, operation.chunks)) return false;
      }
    }
  }
  return plan.collective != Collective::kBarrier;
}

bool has_messages_alone(const Plan& plan) {
  const auto is_in_one_block = [&](const Operation& it) {
    const bool is_message = it.kind == OpKind::kSend || it.kind == OpKind::kReceive;
    return !is_message || it.chunks == 0 ||
           it.chunk / plan.chunks_per_block == (it.chunk + it.chunks - 1) / plan.chunks_per_block;
  };
  return std::ranges::all_of(plan.ranks, [&](const RankPlan& rank) {
    return rank.scratch_slots + rank.host_slots == 0 && std::ranges::all_of(rank.queues, [&](const Queue& queue) {
             return std::ranges::all_of(queue.operations, is_in_one_block);
           });
  });
}

bool rank_publishes_at_most_once(const Plan& plan, int rank) {
  const RankPlan& own = plan.ranks[rank];
  if (own.queues.size() != 1 || own.scratch_slots > 1 || own.host_slots != 0 || own.messages != 0) return false;
  std::vector<bool> heard(plan.ranks.size(), false), told(plan.ranks.size(), false);
  bool published = false;
  for (const Operation& operation : own.queues[0].operations) {
    if (operation.kind == OpKind::kWait) heard[operation.peer_rank] = true;
    if (operation.kind == OpKind::kSignal) {
      if (!published || told[operation.peer_rank]) return false;
      told[operation.peer_rank] = true;
    }
    if (operation.kind != OpKind::kReduce) continue;
    if (operation.chunks != 1) return false;
    for (const Place& place : operation.destinations) {
      if (place.buffer != Buffer::kScratch) continue;
      if (place.rank != rank || published) return false;
      published = true;
    }
    for (const Place& place : operation.sources) {
      if (place.buffer == Buffer::kScratch && place.rank != rank && !heard[place.rank]) return false;
    }
  }
  return published || own.scratch_slots == 0;
}

bool publishes_once(const Plan& plan) {
  bool some = false;
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    if (!rank_publishes_at_most_once(plan, rank)) return false;
    some |= plan.ranks[rank].scratch_slots > 0;
  }
  return some;
}

}  // namespace

bool spans_nodes(const Plan& plan) {
  return std::ranges::any_of(plan.node_of, [&](int node) { return node != plan.node_of.front(); }) ||
         std::ranges::any_of(plan.ranks, [](const RankPlan& it) { return it.messages > 0; });
}

PlanShape shape_of(const Plan& plan) {
  PlanShape shape;
  shape.has_one_queue = true;
  for (const RankPlan& rank : plan.ranks) {
    const int queues = static_cast<int>(rank.queues.size());
    shape.queues = std::max(shape.queues, queues);
    shape.has_one_queue = shape.has_one_queue && queues == 1;
  }
  shape.can_carry_flags = shape.has_one_queue && writes_once(plan);
  shape.has_messages_alone = has_messages_alone(plan);
  shape.spans_nodes = spans_nodes(plan);
  shape.publishes_once = publishes_once(plan);
  return shape;
}

}  // namespace plait
