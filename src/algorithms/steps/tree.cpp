// Broadcast and reduce along a tree.
#include "algorithms/steps/tree.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>

namespace plait {

void Tree::add(int above, int below) {
  order.push_back(below);
  parent[below] = above;
  children[above].push_back(below);
}

int Tree::depth() const {
  std::vector<int> depths(parent.size());
  int deepest = 0;
  for (const int rank : order) {
    if (parent[rank] >= 0) depths[rank] = depths[parent[rank]] + 1;
    deepest = std::max(deepest, depths[rank]);
  }
  return deepest;
}

void add_knomial(Tree& tree, const std::vector<int>& ranks, int radix) {
  const auto count = static_cast<int64_t>(ranks.size());
  int64_t unit = 1;
  while (unit * radix < count) unit *= radix;
  for (; unit > 0; unit /= radix) {
    for (int64_t above = 0; above < count; above += unit * radix) {
      for (int64_t v = above + unit; v < std::min(count, above + unit * radix); v += unit) {
        tree.add(ranks[above], ranks[v]);
      }
    }
  }
}

namespace {

// The parts that both ways along a tree share.
class AlongTree {
 public:
  AlongTree(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape)
      : builder_(builder), carrier_(carrier), tree_(tree), shape_(shape), boxes_(builder.rank_count()) {}

 protected:
  bool by_store() const { return shape_.direction == Direction::kStore; }
  bool has_near_child(int rank) const {
    const auto& children = tree_.children[rank];
    return std::any_of(children.begin(), children.end(), [&](int child) { return carrier_.together(rank, child); });
  }
  bool has_near_parent(int rank) const {
    return tree_.parent[rank] >= 0 && carrier_.together(tree_.parent[rank], rank);
  }
  void take_box(int rank, int owner) { boxes_[rank] = builder_.take_scratch(owner, shape_.parts * shape_.part_chunks); }
  Place box(int rank, int part) const { return slot_after(*boxes_[rank], part * shape_.part_chunks); }
  void reduce(int part, int rank, const std::vector<Place>& destinations, const std::vector<Place>& sources) {
    const ChunkRange it = shape_.range(part);
    builder_.reduce(shape_.queue(part, rank), destinations, sources, it.first, it.count);
  }
  SignalId signal(int part, int from, int to) {
    return builder_.signal(shape_.queue(part, from), shape_.queue(part, to));
  }
  static void call(const std::function<void(int)>& hook, int part) {
    if (hook) hook(part);
  }

  PlanBuilder& builder_;
  Carrier& carrier_;
  const Tree& tree_;
  const TreeShape& shape_;
  std::vector<std::optional<Place>> boxes_;  // scratch for what each rank passes on, or gets: one part after the other
};

class Broadcast : AlongTree {
 public:
  Broadcast(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape,
            const std::vector<Held>& sources, const Finish& finish)
      : AlongTree(builder, carrier, tree, shape), sources_(sources), finish_(finish), calls_(builder.rank_count()) {}

  void make() {
    for (const int rank : tree_.order) {
      if (!shape_.zero_copy && (by_store() ? has_near_parent(rank) : has_near_child(rank))) take_box(rank, rank);
      if (shape_.zero_copy && has_near_parent(rank)) calls_[rank] = signal(0, rank, tree_.parent[rank]);
    }
    for (int part = 0; part < shape_.parts; ++part) {
      arrivals_.assign(builder_.rank_count(), std::nullopt);
      call(shape_.before_root, part);
      for (const int rank : tree_.order) {
        if (arrivals_[rank]) carrier_.await(*arrivals_[rank]);
        pass_on(part, rank, arrivals_[rank] ? std::vector{arrivals_[rank]->place} : places_at(sources_, first(part)));
      }
    }
  }

 private:
  int first(int part) const { return shape_.range(part).first; }
  // The place where the rank itself wants the data first of all.
  Place own(int rank, int part) const { return finish_.places(rank)[0].at(first(part)); }

  // Stores the data at `sources` where it belongs at the rank, and where its children get it.
  void pass_on(int part, int rank, const std::vector<Place>& sources) {
    std::vector<Place> places = beside(sources, places_at(finish_.places(rank), first(part)));
    if (!by_store() && boxes_[rank]) places.push_back(box(rank, part));
    for (const int child : tree_.children[rank]) {
      if (by_store() && boxes_[child]) places.push_back(box(child, part));
    }
    if (!places.empty()) reduce(part, rank, places, sources);
    if (finish_.stored) finish_.stored(rank, shape_.range(part));
    const Place mine = sources.size() == 1 ? sources[0] : own(rank, part);
    for (const int child : tree_.children[rank]) arrivals_[child] = hand_to(child, part, rank, mine);
  }

  Arrival hand_to(int child, int part, int rank, Place mine) {
    const QueueId from = shape_.queue(part, rank), to = shape_.queue(part, child);
    if (calls_[child]) {
      if (part == 0) builder_.wait(*calls_[child]);
      return carrier_.put(from, {mine}, {}, to, own(child, part), shape_.range(part));
    }
    if (by_store() && boxes_[child]) return {box(child, part), builder_.signal(from, to)};
    const Place source = carrier_.together(rank, child) ? box(rank, part) : own(rank, part);
    return carrier_.expose(from, source, to, shape_.range(part), own(child, part));
  }

  const std::vector<Held>& sources_;
  const Finish& finish_;
  std::vector<std::optional<SignalId>> calls_;    // of children to whose outputs their parent stores
  std::vector<std::optional<Arrival>> arrivals_;  // of the current part
};

class Reduction : AlongTree {
 public:
  // Without a result, the root does not combine what it has.
  Reduction(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape, const HeldByRank& held,
            std::optional<Held> result)
      : AlongTree(builder, carrier, tree, shape), held_(held), result_(result) {}

  std::vector<Held> make() {
    for (const int rank : tree_.order) {
      if (tree_.parent[rank] >= 0 && !is_read_in_place(rank)) take_box(rank, owner_of_box(rank));
    }
    if (!result_) at_root_ = held_[tree_.root()];
    for (int part = 0; part < shape_.parts; ++part) {
      arrivals_.assign(builder_.rank_count(), std::nullopt);
      for (auto at = tree_.order.rbegin(); at != tree_.order.rend(); ++at) combine(part, *at);
      call(shape_.after_root, part);
    }
    return_inputs();
    return at_root_;
  }

 private:
  void return_inputs() {
    // A rank whose input its parent has read must not return before that is over.
    for (const int rank : tree_.order) {
      if (!has_near_parent(rank) || !is_read_in_place(rank) || has_slots(held_[rank][0].place.buffer)) continue;
      for (int queue = 0; queue < shape_.queues_in_use(); ++queue)
        builder_.wait(signal(queue, tree_.parent[rank], rank));
    }
  }

  // A leaf's data can be sent as it is, and fetched if the parent may load it. All other ranks have sums.
  bool is_read_in_place(int rank) const {
    if (!tree_.children[rank].empty() || held_[rank].size() != 1) return false;
    if (!has_near_parent(rank)) return true;
    return !by_store() && (shape_.zero_copy || has_slots(held_[rank][0].place.buffer));
  }
  // A rank stores its sum by store where the parent needs it, else in its own scratch.
  bool is_stored_at_parent(int rank) const { return by_store() && has_near_parent(rank); }
  int owner_of_box(int rank) const { return is_stored_at_parent(rank) ? tree_.parent[rank] : rank; }

  void combine(int part, int rank) {
    const int parent = tree_.parent[rank];
    const int first = shape_.range(part).first;
    std::vector<Place> sources = places_at(held_[rank], first), arrived;
    for (const int child : tree_.children[rank]) {
      carrier_.await(*arrivals_[child]);
      arrived.push_back(arrivals_[child]->place);
    }
    sources.insert(by_store() ? sources.begin() : sources.end(), arrived.begin(), arrived.end());
    if (parent < 0) return finish_root(part, sources, arrived);
    const QueueId from = shape_.queue(part, rank), to = shape_.queue(part, parent);
    const Place result = is_read_in_place(rank) ? sources[0] : box(rank, part);
    if (!is_read_in_place(rank)) reduce(part, rank, {result}, sources);
    if (is_stored_at_parent(rank)) {
      arrivals_[rank] = {result, builder_.signal(from, to)};
    } else {
      arrivals_[rank] = carrier_.expose(from, result, to, shape_.range(part), landing(rank, part));
    }
  }

  void finish_root(int part, const std::vector<Place>& sources, const std::vector<Place>& arrived) {
    const int first = shape_.range(part).first;
    if (result_) return reduce(part, tree_.root(), {result_->at(first)}, sources);
    for (const Place& place : arrived) {
      if (part == 0) at_root_.push_back({place, first});
    }
  }

  // The root's parts for others have to lie together.
  std::optional<Place> landing(int rank, int part) {
    if (result_ || tree_.parent[rank] != tree_.root() || has_near_parent(rank)) return std::nullopt;
    auto& all = landings_[rank];
    if (!all) all = builder_.take_scratch(tree_.root(), shape_.parts * shape_.part_chunks);
    return slot_after(*all, part * shape_.part_chunks);
  }

  const HeldByRank& held_;
  const std::optional<Held> result_;
  std::vector<Held> at_root_;  // what it has to combine, if there is no result
  std::unordered_map<int, std::optional<Place>> landings_;
  std::vector<std::optional<Arrival>> arrivals_;  // of the current part, at the parent of each rank
};

}  // namespace

void broadcast_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape, Held source) {
  broadcast_along(builder, carrier, tree, shape, {source}, to_outputs());
}

void broadcast_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape,
                     const std::vector<Held>& sources, const Finish& finish) {
  Broadcast(builder, carrier, tree, shape, sources, finish).make();
}

void reduce_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape,
                  const HeldByRank& held, Held result) {
  Reduction(builder, carrier, tree, shape, held, result).make();
}

std::vector<Held> reduce_to_root(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape,
                                 const HeldByRank& held) {
  return Reduction(builder, carrier, tree, shape, held, std::nullopt).make();
}

}  // namespace plait
