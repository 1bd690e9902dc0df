// Finds the crossings between memories.
#include "plan/traffic.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace plait {
namespace {

// Whether it is a `cpu` queue of a rank with a GPU.
bool is_beside_gpu(const Plan& plan, int rank, int queue) {
  const auto& queues = plan.ranks[rank].queues;
  const auto on_gpu = [](const Queue& it) { return it.engine == Engine::kSm || it.engine == Engine::kCopy; };
  return queues[queue].engine == Engine::kCpu && std::any_of(queues.begin(), queues.end(), on_gpu);
}

// Returns the memory next to the queue's processor. A `cpu` queue of a rank with a GPU works from the host.
Endpoint processor_of(const Plan& plan, const OperationId& id) {
  return {id.rank, is_beside_gpu(plan, id.rank, id.queue)};
}

// Signals and waits have no places, and messages one at each end.
int64_t chunks_read(const Operation& it) { return static_cast<int64_t>(it.sources.size()) * it.chunks; }
int64_t chunks_written(const Operation& it) { return static_cast<int64_t>(it.destinations.size()) * it.chunks; }

}  // namespace

bool keeps_core_busy(const Plan& plan, int rank, int queue) {
  const auto combines = [](const Operation& it) { return it.sources.size() > 1; };
  const auto& operations = plan.ranks[rank].queues[queue].operations;
  return std::any_of(operations.begin(), operations.end(), combines) && is_beside_gpu(plan, rank, queue);
}

void find_transfers(const Plan& plan, const Pairing& pairing, const OperationId& id, std::vector<Transfer>& found) {
  found.clear();
  const auto add = [&](const Endpoint& from, const Endpoint& to) {
    if (from != to) found.push_back({from, to});
  };
  const Operation& operation = operation_at(plan, id);
  if (operation.kind == OpKind::kReceive && operation.chunks > 0) {
    const OperationId send = pairing.messages[id.rank][operation.number].from;
    Endpoint from = endpoint_of(operation_at(plan, send).sources[0]);
    from.rank += operation.peer_rank - send.rank;  // in a folded plan another rank's send may stand for it (fold.hpp)
    add(from, endpoint_of(operation.destinations[0]));
  }
  if (operation.kind != OpKind::kReduce) return;
  if (plan.ranks[id.rank].queues[id.queue].engine == Engine::kCopy) {
    return add(endpoint_of(operation.sources[0]), endpoint_of(operation.destinations[0]));
  }
  const Endpoint processor = processor_of(plan, id);
  for (const Place& place : operation.sources) add(endpoint_of(place), processor);
  for (const Place& place : operation.destinations) add(processor, endpoint_of(place));
}

PlanCounts count(const Plan& plan, const Pairing& pairing) {
  PlanCounts counts;
  std::map<std::pair<Endpoint, Endpoint>, int64_t> traffic;
  std::vector<Transfer> transfers;
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    int64_t& read = counts.chunks_read.emplace_back(0);
    int64_t& written = counts.chunks_written.emplace_back(0);
    int64_t& combined = counts.chunks_combined.emplace_back(0);
    int64_t& of_core = counts.chunks_of_cores.emplace_back(0);
    const auto& queues = plan.ranks[rank].queues;
    for (int queue = 0; queue < static_cast<int>(queues.size()); ++queue) {
      const bool is_of_core = keeps_core_busy(plan, rank, queue);
      for (int i = 0; i < static_cast<int>(queues[queue].operations.size()); ++i) {
        const Operation& operation = queues[queue].operations[i];
        read += chunks_read(operation);
        written += chunks_written(operation);
        const int64_t moved = chunks_read(operation) + chunks_written(operation);
        if (is_of_core) of_core += moved;
        if (!is_of_core && operation.sources.size() > 1) combined += moved;
        find_transfers(plan, pairing, {rank, queue, i}, transfers);
        for (const Transfer& it : transfers) traffic[{it.from, it.to}] += operation.chunks;
      }
    }
  }
  for (const auto& [ends, chunks] : traffic) counts.traffic.push_back({ends.first, ends.second, chunks});
  return counts;
}

}  // namespace plait
