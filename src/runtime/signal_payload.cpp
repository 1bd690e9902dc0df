// Recognises plans whose data fits into signals.
#include "runtime/signal_payload.hpp"

#include <vector>

namespace plait {
namespace {

bool rank_publishes_once(const Plan& plan, int rank) {
  const RankPlan& own = plan.ranks[rank];
  if (own.queues.size() != 1 || own.scratch_slots != 1 || own.host_slots != 0 || own.messages != 0) return false;
  std::vector<bool> heard(plan.ranks.size(), false), told(plan.ranks.size(), false);
  bool published = false, signalled = false;
  for (const Operation& operation : own.queues[0].operations) {
    if (operation.kind == OpKind::kWait) heard[operation.peer_rank] = true;
    if (operation.kind == OpKind::kSignal) {
      if (!published || told[operation.peer_rank]) return false;
      told[operation.peer_rank] = signalled = true;
    }
    if (operation.kind != OpKind::kReduce) continue;
    if (operation.chunks != 1) return false;
    for (const Place& place : operation.destinations) {
      if (place.buffer != Buffer::kScratch) continue;
      if (place.rank != rank || published || signalled) return false;
      published = true;
    }
    for (const Place& place : operation.sources) {
      if (place.buffer == Buffer::kScratch && place.rank != rank && !heard[place.rank]) return false;
    }
  }
  return published;
}

}  // namespace

bool publishes_once(const Plan& plan) {
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    if (!rank_publishes_once(plan, rank)) return false;
  }
  return true;
}

int signal_from(const Plan& plan, int rank, int peer) {
  for (const Operation& operation : plan.ranks[rank].queues[0].operations) {
    if (operation.kind == OpKind::kWait && operation.peer_rank == peer) return operation.number;
  }
  return -1;
}

}  // namespace plait
