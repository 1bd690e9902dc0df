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

bool can_carry_flags(const VerifiedPlan& verified, DataType type) {
  const Plan& plan = verified.plan();
  if (!every_rank_has_one_queue(plan)) return false;
  std::set<std::pair<int, int>> written, results;  // (rank, slot), (rank, chunk)
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    if (plan.ranks[rank].host_slots > 0) return false;
    const std::vector<Operation>& operations = plan.ranks[rank].queues[0].operations;
    for (size_t i = 0; i < operations.size(); ++i) {
      if (operations[i].kind != OpKind::kReduce) continue;
      const ReduceFacts& facts = verified.report().facts[rank][0][i];
      if (facts.result_is_partial && accumulates_in_float32(type)) return false;
      for (const Place& place : operations[i].destinations) {
        if (place.rank != rank && place.buffer != Buffer::kScratch) return false;
        for (int c = 0; place.buffer == Buffer::kOutput && c < operations[i].chunks; ++c) {
          if (!results.emplace(rank, operations[i].chunk + c).second) return false;
        }
        for (int c = 0; place.buffer == Buffer::kScratch && c < operations[i].chunks; ++c) {
          if (!written.emplace(place.rank, place.slot + c).second) return false;
        }
      }
      for (const Place& place : operations[i].sources) {
        if (place.rank != rank) return false;
      }
    }
  }
  return plan.collective != Collective::kBarrier;
}

}  // namespace plait
