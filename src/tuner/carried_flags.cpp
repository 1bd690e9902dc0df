// Looking at every reduce of a plan.
#include "tuner/carried_flags.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace plait {

bool every_rank_has_one_queue(const Plan& plan) {
  return std::all_of(plan.ranks.begin(), plan.ranks.end(), [](const RankPlan& it) { return it.queues.size() == 1; });
}

bool can_carry_flags(const Plan& plan) {
  if (!every_rank_has_one_queue(plan)) return false;
  std::set<std::pair<int, int>> written, results;  // (rank, slot), (rank, chunk)
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    if (plan.ranks[rank].host_slots > 0) return false;
    for (const Operation& operation : plan.ranks[rank].queues[0].operations) {
      if (operation.kind != OpKind::kReduce) continue;
      for (const Place& place : operation.destinations) {
        if (place.rank != rank && place.buffer != Buffer::kScratch) return false;
        for (int c = 0; place.buffer == Buffer::kOutput && c < operation.chunks; ++c) {
          if (!results.emplace(rank, operation.chunk + c).second) return false;
        }
        for (int c = 0; place.buffer == Buffer::kScratch && c < operation.chunks; ++c) {
          if (!written.emplace(place.rank, place.slot + c).second) return false;
        }
      }
      for (const Place& place : operation.sources) {
        if (place.rank != rank) return false;
      }
    }
  }
  return plan.collective != Collective::kBarrier;
}

bool can_carry_flags(const VerifiedPlan& plan, DataType type) {
  if (!can_carry_flags(plan.plan())) return false;
  if (!accumulates_in_float32(type)) return true;
  for (int rank = 0; rank < plan.plan().rank_count(); ++rank) {
    const std::vector<Operation>& operations = plan.plan().ranks[rank].queues[0].operations;
    for (size_t i = 0; i < operations.size(); ++i) {
      const bool reduces = operations[i].kind == OpKind::kReduce;
      if (reduces && plan.report().facts[rank][0][i].result_is_partial) return false;
    }
  }
  return true;
}

}  // namespace plait
