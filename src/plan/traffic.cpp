// Finds the crossings between memories.
#include "plan/traffic.hpp"

#include <algorithm>

namespace plait {
namespace {

// Returns the memory next to the queue's processor. A `cpu` queue of a rank with a GPU works from the host.
Endpoint processor_of(const Plan& plan, const OperationId& id) {
  const auto& queues = plan.ranks[id.rank].queues;
  const bool cpu = queues[id.queue].engine == Engine::kCpu;
  const auto on_gpu = [](const Queue& queue) { return queue.engine == Engine::kSm || queue.engine == Engine::kCopy; };
  return {id.rank, cpu && std::any_of(queues.begin(), queues.end(), on_gpu)};
}

}  // namespace

std::vector<Transfer> transfers(const Plan& plan, const Pairing& pairing, const OperationId& id) {
  std::vector<Transfer> found;
  const auto add = [&](const Endpoint& from, const Endpoint& to) {
    if (from != to) found.push_back({from, to});
  };
  const Operation& operation = operation_at(plan, id);
  if (operation.kind == OpKind::kReceive && operation.chunks > 0) {
    const Operation& sent = operation_at(plan, pairing.messages[id.rank][operation.number].from);
    add(endpoint_of(sent.sources[0]), endpoint_of(operation.destinations[0]));
  }
  if (operation.kind != OpKind::kReduce) return found;
  if (plan.ranks[id.rank].queues[id.queue].engine == Engine::kCopy) {
    add(endpoint_of(operation.sources[0]), endpoint_of(operation.destinations[0]));
    return found;
  }
  const Endpoint processor = processor_of(plan, id);
  for (const Place& place : operation.sources) add(endpoint_of(place), processor);
  for (const Place& place : operation.destinations) add(processor, endpoint_of(place));
  return found;
}

}  // namespace plait
