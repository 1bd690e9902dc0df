// Looks at every operation of a plan.
#include "plan/shape.hpp"

#include <algorithm>
#include <vector>

namespace plait {
namespace {

// Which slots of scratch and chunks of output have been written, on every rank. A bit each: plans have many millions.
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

// Whether data can carry its own flags: every slot of scratch is written once, by one rank, as a whole, and is read by
// its owner only; every result is written once; and there is data.
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

}  // namespace

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
  return shape;
}

}  // namespace plait
