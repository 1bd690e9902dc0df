// Maximum flows, and the ways that they consist of.
#include "algorithms/steps/max_flow.hpp"

#include <algorithm>

namespace plait {
namespace {

using Way = std::vector<int>;  // ranks

constexpr int kMostWaysOfEach = 12;

// The room that a flow has taken. Where it goes both ways over a link, only the difference counts.
LinkRoom flow_between(const LinkRoom& before, const LinkRoom& left) {
  LinkRoom flow = before;
  for (int a = 0; a < before.ranks(); ++a) {
    for (int b = 0; b < before.ranks(); ++b) flow.at(a, b) = std::max(0, before.at(a, b) - left.at(a, b));
  }
  return flow;
}

std::vector<Way> ways_to(int root, const LinkRoom& room, int from_each) {
  LinkRoom left = room;
  for (int rank = 0; rank < room.ranks(); ++rank) {
    for (int i = 0; i < from_each && rank != root; ++i) {
      if (!left.take_way(rank, root)) return {};
    }
  }
  // As much leaves a rank as enters it, so there is a way on from everywhere, whichever ways were taken out before.
  LinkRoom flow = flow_between(room, left);
  std::vector<Way> ways;
  for (int rank = 0; rank < room.ranks(); ++rank) {
    for (int i = 0; i < from_each && rank != root; ++i) {
      ways.push_back(flow.way(rank, root));
      for (size_t at = 1; at < ways.back().size(); ++at) --flow.at(ways.back()[at - 1], ways.back()[at]);
    }
  }
  return ways;
}

}  // namespace

Packing<Way> pack_ways_to(int root, int ranks, const std::vector<DeviceLink>& links, int most) {
  std::vector<int> counts = counts_up_to(kMostWaysOfEach, most);
  for (int& count : counts) count *= ranks - 1;
  double into_root = 0;
  for (const DeviceLink& it : links) into_root += it.a == root || it.b == root ? it.gbps : 0;
  const auto pack = [&](const LinkRoom& room, int count) { return ways_to(root, room, count / (ranks - 1)); };
  return best_packing<Way>(ranks, links, counts, into_root, pack);
}

}  // namespace plait
