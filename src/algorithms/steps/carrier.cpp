// Moves chunks between ranks.
#include "algorithms/steps/carrier.hpp"

#include <utility>

namespace plait {

Carrier::Carrier(PlanBuilder& builder, const std::vector<int>& node_of, Detour detour)
    : builder_(builder), node_of_(node_of), detour_(std::move(detour)), net_queues_(builder.rank_count()) {}

QueueId Carrier::relay_queue(int rank, int from, int to) {
  const auto [at, is_new] = relay_queues_.try_emplace({from, to}, QueueId{});
  if (is_new) at->second = builder_.add_queue(rank, detour_.engine);
  return at->second;
}

QueueId Carrier::out_queue(int rank) {
  auto& queue = net_queues_[rank].out;
  if (!queue) queue = builder_.add_queue(rank, Engine::kNet);
  return *queue;
}

QueueId Carrier::in_queue(int rank) {
  auto& queue = net_queues_[rank].in;
  if (!queue) queue = builder_.add_queue(rank, Engine::kNet);
  return *queue;
}

void Carrier::release(QueueId from) { builder_.wait(builder_.signal(from, out_queue(from.rank))); }

void Carrier::carry(QueueId from, Place source, QueueId to, Place landing, ChunkRange range) {
  builder_.send_receive(out_queue(from.rank), source, in_queue(to.rank), landing, range.first, range.count);
}

SignalId Carrier::announce(QueueId to) { return builder_.signal(in_queue(to.rank), to); }

Arrival Carrier::send(QueueId from, Place source, QueueId to, Place landing, ChunkRange range) {
  release(from);
  carry(from, source, to, landing, range);
  return {landing, announce(to)};
}

bool Carrier::by_host(int from, int to) const {
  return detour_.kind == PathKind::kHost && together(from, to) && (!detour_.among || detour_.among(from, to));
}

Place Carrier::take_landing(int from, int to, int count) {
  if (by_host(from, to)) return builder_.take_host(from, count);
  return together(from, to) ? builder_.take_scratch(to, count) : take_slots(to, count);
}

Place Carrier::take_slots(int rank, int count) {
  return detour_.landings == Buffer::kHost ? builder_.take_host(rank, count) : builder_.take_scratch(rank, count);
}

Arrival Carrier::store(QueueId from, const std::vector<Place>& sources, const std::vector<Place>& kept, QueueId to,
                       Place landing, ChunkRange range) {
  const auto via = detour_.via.find({from.rank, to.rank});
  const bool relays = via != detour_.via.end();
  std::vector<Place> destinations = {relays ? builder_.take_scratch(via->second, range.count) : landing};
  destinations.insert(destinations.end(), kept.begin(), kept.end());
  builder_.reduce(from, destinations, sources, range.first, range.count);
  if (!relays) return {landing, builder_.signal(from, to)};
  const QueueId relay = relay_queue(via->second, from.rank, to.rank);
  builder_.wait(builder_.signal(from, relay));
  builder_.copy(relay, landing, destinations[0], range.first, range.count);
  return {landing, builder_.signal(relay, to)};
}

Arrival Carrier::put(QueueId from, const std::vector<Place>& sources, const std::vector<Place>& kept, QueueId to,
                     Place landing, ChunkRange range) {
  if (together(from.rank, to.rank)) return store(from, sources, kept, to, landing, range);
  // Send it at once, if possible, so that what is kept is stored while it travels. An input cannot go at once if
  // something is kept: the store to the output may be a store to the same memory.
  if (sources.size() == 1 && (kept.empty() || sources[0].buffer != Buffer::kInput)) {
    const Arrival arrival = send(from, sources[0], to, landing, range);
    if (!kept.empty()) builder_.reduce(from, kept, sources, range.first, range.count);
    return arrival;
  }
  const std::vector<Place> results = kept.empty() ? std::vector{take_slots(from.rank, range.count)} : kept;
  builder_.reduce(from, results, sources, range.first, range.count);
  return send(from, results[0], to, landing, range);
}

Arrival Carrier::expose(QueueId from, Place source, QueueId to, ChunkRange range, std::optional<Place> landing) {
  if (together(from.rank, to.rank)) return {source, builder_.signal(from, to)};
  return send(from, source, to, landing ? *landing : take_slots(to.rank, range.count), range);
}

SignalId Carrier::tell(QueueId from, QueueId to) {
  if (together(from.rank, to.rank)) return builder_.signal(from, to);
  release(from);
  builder_.send_receive_nothing(out_queue(from.rank), in_queue(to.rank));
  return announce(to);
}

void Carrier::disseminate(const std::vector<QueueId>& queues) {
  for (size_t distance = 1; distance < queues.size(); distance *= 2) {
    std::vector<SignalId> signals;
    for (size_t i = 0; i < queues.size(); ++i)
      signals.push_back(tell(queues[i], queues[(i + distance) % queues.size()]));
    for (const SignalId& signal : signals) builder_.wait(signal);
  }
}

}  // namespace plait
