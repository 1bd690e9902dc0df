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

Arrival Carrier::send(LaneId from, Place source, LaneId to, Place landing, ChunkRange range) {
  const LaneId out = out_lane(from.rank);
  const LaneId in = in_lane(to.rank);
  builder_.wait(builder_.signal(from, out));
  builder_.send_receive(out, source, in, landing, range.first, range.count);
  return {landing, builder_.signal(in, to)};
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

}  // namespace plait
