// Moves between ranks.
#include "algorithms/steps/carrier.hpp"

namespace plait {

Carrier::Carrier(PlanBuilder& builder, const std::vector<int>& node_of)
    : builder_(builder), node_of_(node_of), net_lanes_(builder.rank_count()) {}

LaneId Carrier::out_lane(int rank) {
  auto& lane = net_lanes_[rank].out;
  if (!lane) lane = builder_.add_lane(rank, Engine::kNet);
  return *lane;
}

LaneId Carrier::in_lane(int rank) {
  auto& lane = net_lanes_[rank].in;
  if (!lane) lane = builder_.add_lane(rank, Engine::kNet);
  return *lane;
}

void Carrier::release(LaneId from) { builder_.wait(builder_.signal(from, out_lane(from.rank))); }

void Carrier::carry(LaneId from, Place source, LaneId to, Place landing, ChunkRange range) {
  builder_.send_receive(out_lane(from.rank), source, in_lane(to.rank), landing, range.first, range.count);
}

SignalId Carrier::announce(LaneId to) { return builder_.signal(in_lane(to.rank), to); }

Arrival Carrier::send(LaneId from, Place source, LaneId to, Place landing, ChunkRange range) {
  release(from);
  carry(from, source, to, landing, range);
  return {landing, announce(to)};
}

Arrival Carrier::push(LaneId from, const std::vector<Place>& sources, const std::vector<Place>& kept, LaneId to,
                      Place landing, ChunkRange range) {
  if (together(from.rank, to.rank)) {
    std::vector<Place> destinations = {landing};
    destinations.insert(destinations.end(), kept.begin(), kept.end());
    builder_.fold(from, destinations, sources, range.first, range.count);
    return {landing, builder_.signal(from, to)};
  }
  // Off it goes, if possible, so that what is kept is stored while it travels. Not so an input: a store to the output
  // beside it may be a store to the same memory.
  if (sources.size() == 1 && (kept.empty() || sources[0].buffer != Buffer::kInput)) {
    const Arrival arrival = send(from, sources[0], to, landing, range);
    if (!kept.empty()) builder_.fold(from, kept, sources, range.first, range.count);
    return arrival;
  }
  const std::vector<Place> results = kept.empty() ? std::vector{builder_.take_scratch(from.rank, range.count)} : kept;
  builder_.fold(from, results, sources, range.first, range.count);
  return send(from, results[0], to, landing, range);
}

Arrival Carrier::offer(LaneId from, Place source, LaneId to, ChunkRange range, std::optional<Place> landing) {
  if (together(from.rank, to.rank)) return {source, builder_.signal(from, to)};
  return send(from, source, to, landing ? *landing : builder_.take_scratch(to.rank, range.count), range);
}

SignalId Carrier::tell(LaneId from, LaneId to) {
  if (together(from.rank, to.rank)) return builder_.signal(from, to);
  release(from);
  builder_.send_receive_nothing(out_lane(from.rank), in_lane(to.rank));
  return announce(to);
}

void Carrier::disseminate(const std::vector<LaneId>& lanes) {
  for (size_t distance = 1; distance < lanes.size(); distance *= 2) {
    std::vector<SignalId> signals;
    for (size_t i = 0; i < lanes.size(); ++i) signals.push_back(tell(lanes[i], lanes[(i + distance) % lanes.size()]));
    for (const SignalId& signal : signals) builder_.wait(signal);
  }
}

}  // namespace plait
