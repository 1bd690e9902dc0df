// Broadcast and reduce along a tree.
#include "algorithms/tree.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "algorithms/carrier.hpp"

namespace plait {
namespace {

// What both directions share: the lanes, and for each rank the scratch where it publishes, if it has to.
struct TreePlan {
  TreePlan(const Tree& the_tree, const Algorithm& algorithm, const AlgorithmArguments& arguments)
      : tree(the_tree),
        parts(arguments.parts),
        peer(arguments.reach == Reach::kPeer),
        builder(start_plan(algorithm, arguments, parts)),
        carrier(builder, arguments.node_of),
        lanes(add_lanes(builder, arguments)),
        published(arguments.ranks) {}

  bool near_child(int rank) const {
    return std::any_of(tree.children[rank].begin(), tree.children[rank].end(),
                       [&](int child) { return carrier.together(rank, child); });
  }

  const Tree& tree;
  const int parts;
  const bool peer;
  PlanBuilder builder;
  Carrier carrier;
  std::vector<LaneId> lanes;
  std::vector<std::optional<Place>> published;
};

// Stores part `part` in the rank's output and where its children fetch it. `arrived` is where it lies.
void store(TreePlan& it, int rank, int part, Place arrived) {
  std::vector<Place> destinations;
  if (arrived != output_of(rank)) destinations.push_back(output_of(rank));
  if (it.published[rank]) destinations.push_back(slot_after(*it.published[rank], part));
  if (!destinations.empty()) it.builder.fold(it.lanes[rank], destinations, {arrived}, part);
}

}  // namespace

void Tree::add(int above, int below) {
  order.push_back(below);
  parent[below] = above;
  children[above].push_back(below);
}

void add_binomial(Tree& tree, const std::vector<int>& ranks) {
  const int count = static_cast<int>(ranks.size());
  for (int bit = static_cast<int>(std::bit_floor(ranks.size())); bit > 0; bit /= 2) {
    for (int v = bit; v < count; v += 2 * bit) tree.add(ranks[v - bit], ranks[v]);
  }
}

Plan broadcast_along(const Tree& tree, const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  TreePlan it(tree, algorithm, arguments);
  // Between neighbours on a node a staged child fetches from its parent's scratch; a peer parent stores straight to
  // the child's output, as soon as the child has told that it was called.
  std::vector<std::optional<SignalId>> calls(arguments.ranks);
  for (const int rank : tree.order) {
    if (!it.peer && it.near_child(rank)) it.published[rank] = it.builder.take_scratch(rank, it.parts);
    const int parent = tree.parent[rank];
    if (it.peer && parent >= 0 && it.carrier.together(parent, rank)) {
      calls[rank] = it.builder.signal(it.lanes[rank], it.lanes[parent]);
    }
  }
  for (int part = 0; part < it.parts; ++part) {
    std::vector<Arrival> arrivals(arguments.ranks);
    for (const int rank : tree.order) {
      Place mine = input_of(rank);
      if (tree.parent[rank] >= 0) {
        it.carrier.await(arrivals[rank]);
        mine = arrivals[rank].place;
      }
      store(it, rank, part, mine);
      for (const int child : tree.children[rank]) {
        const ChunkRange range = {part, 1};
        if (calls[child]) {
          if (part == 0) it.builder.wait(*calls[child]);
          arrivals[child] = it.carrier.push(it.lanes[rank], {mine}, {}, it.lanes[child], output_of(child), range);
          continue;
        }
        const bool near = it.carrier.together(rank, child);
        const Place source = near ? slot_after(*it.published[rank], part) : output_of(rank);
        arrivals[child] = it.carrier.offer(it.lanes[rank], source, it.lanes[child], range, output_of(child));
      }
    }
  }
  return it.builder.finish();
}

Plan reduce_along(const Tree& tree, const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  TreePlan it(tree, algorithm, arguments);
  // A leaf's input can be fetched where the parent may load it, and can be sent as it is; all others have sums.
  const auto fetched_from_input = [&](int rank) {
    return tree.children[rank].empty() && (it.peer || !it.carrier.together(rank, tree.parent[rank]));
  };
  for (const int rank : tree.order) {
    if (tree.parent[rank] >= 0 && !fetched_from_input(rank)) {
      it.published[rank] = it.builder.take_scratch(rank, it.parts);
    }
  }
  for (int part = 0; part < it.parts; ++part) {
    std::vector<Arrival> arrivals(arguments.ranks);
    for (auto at = tree.order.rbegin(); at != tree.order.rend(); ++at) {
      const int rank = *at;
      const int parent = tree.parent[rank];
      std::vector<Place> sources = {input_of(rank)};
      for (const int child : tree.children[rank]) {
        it.carrier.await(arrivals[child]);
        sources.push_back(arrivals[child].place);
      }
      Place result = parent < 0 ? output_of(rank) : input_of(rank);
      if (it.published[rank]) result = slot_after(*it.published[rank], part);
      if (result != input_of(rank)) it.builder.fold(it.lanes[rank], {result}, sources, part);
      if (parent >= 0) arrivals[rank] = it.carrier.offer(it.lanes[rank], result, it.lanes[parent], {part, 1});
    }
  }
  // Who was read by its parent must not return before that is over.
  for (const int rank : tree.order) {
    const int parent = tree.parent[rank];
    if (parent < 0 || !fetched_from_input(rank) || !it.carrier.together(rank, parent)) continue;
    it.builder.wait(it.builder.signal(it.lanes[parent], it.lanes[rank]));
  }
  return it.builder.finish();
}

}  // namespace plait
