// Data along ways.
#include "algorithms/steps/ways.hpp"

#include <algorithm>

namespace plait {
namespace {

constexpr int kHostMemory = -1;  // in the place of a neighbour

}  // namespace

WaySteps::WaySteps(PlanBuilder& builder, const AlgorithmArguments& arguments, std::vector<Way> ways)
    : builder_(builder),
      arguments_(arguments),
      ways_(std::move(ways)),
      straight_(builder, arguments.node_of),
      by_host_(builder, arguments.node_of, {.kind = PathKind::kHost}) {}

void WaySteps::keep(int rank, int chunk, int chunks) {
  builder_.copy(queue(rank, rank, true), output_of(rank), input_of(rank), chunk, chunks);
}

void WaySteps::move_all() {
  size_t longest = 0;
  for (const Way& way : ways_) longest = std::max(longest, way.ranks.size());
  // Moves come in the order of time, if ranks are equally fast. So each queue has its work in that order.
  const int hops = static_cast<int>(longest) - 1;
  for (int time = 0; time < hops + arguments_.parts; ++time) {
    for (size_t way = 0; way < ways_.size(); ++way) {
      for (int hop = std::max(0, time - arguments_.parts + 1); hop <= std::min(time, hops); ++hop) {
        move(way, time - hop, hop);
      }
    }
  }
}

void WaySteps::move(size_t index, int part, int hop) {
  const Way& way = ways_[index];
  const std::vector<int>& ranks = way.ranks;
  const int last = static_cast<int>(ranks.size()) - 1;
  if (hop > last) return;
  const ChunkRange chunks = {way.first_chunk + part * way.part_chunks, way.part_chunks};
  Under& under = under_.try_emplace({index, part}, Under{input_of(ranks[0])}).first->second;
  if (under.came) builder_.wait(*under.came);
  if (hop == last) {
    if (under.place != output_of(ranks[last])) {
      builder_.copy(queue(way, hop), output_of(ranks[last]), under.place, chunks.first, chunks.count);
    }
    return;
  }
  Carrier& carrier = way.kind == PathKind::kHost ? by_host_ : straight_;
  const bool ends_far = hop + 1 == last && !carrier.together(ranks[hop], ranks[last]);
  const Place landing =
      ends_far ? output_of(ranks[last]) : carrier.take_landing(ranks[hop], ranks[hop + 1], chunks.count);
  const Arrival arrival = carrier.put(queue(way, hop), {under.place}, {}, queue(way, hop + 1), landing, chunks);
  under = {arrival.place, arrival.signal};
}

QueueId WaySteps::queue(const Way& way, int hop) {
  const bool ends = hop + 1 == static_cast<int>(way.ranks.size());
  const int neighbour = way.kind == PathKind::kHost ? kHostMemory : way.ranks[ends ? hop - 1 : hop + 1];
  return queue(way.ranks[hop], neighbour, ends);
}

QueueId WaySteps::queue(int rank, int neighbour, bool ends) {
  const auto [at, is_new] = queues_.try_emplace({rank, neighbour, ends}, QueueId{});
  if (is_new) at->second = builder_.add_queue(rank, arguments_.engine);
  return at->second;
}

}  // namespace plait
