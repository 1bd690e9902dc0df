// Broadcast and reduce along a tree.
#include "algorithms/steps/tree.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>

namespace plait {

void Tree::add(int above, int below) {
  order.push_back(below);
  parent[below] = above;
  children[above].push_back(below);
}

namespace {

std::vector<std::vector<int>> grouped(const std::vector<int>& order, const std::vector<int>& number_of) {
  std::vector<std::vector<int>> groups;
  for (const int x : order) {
    const auto number = static_cast<size_t>(number_of[x]);
    if (number >= groups.size()) groups.resize(number + 1);
    groups[number].push_back(x);
  }
  return groups;
}

}  // namespace

std::vector<std::vector<int>> Tree::by_depth() const {
  std::vector<int> depths(parent.size());
  for (const int x : order) depths[x] = parent[x] < 0 ? 0 : depths[parent[x]] + 1;
  return grouped(order, depths);
}

std::vector<std::vector<int>> Tree::by_height() const {
  std::vector<int> heights(parent.size());
  const std::vector<int> upwards(order.rbegin(), order.rend());
  for (const int x : upwards) {
    if (parent[x] >= 0) heights[parent[x]] = std::max(heights[parent[x]], heights[x] + 1);
  }
  return grouped(upwards, heights);
}

void add_knomial(Tree& tree, const std::vector<int>& members, int radix) {
  const auto count = static_cast<int64_t>(members.size());
  int64_t unit = 1;
  while (unit * radix < count) unit *= radix;
  for (; unit > 0; unit /= radix) {
    for (int64_t above = 0; above < count; above += unit * radix) {
      for (int64_t v = above + unit; v < std::min(count, above + unit * radix); v += unit) {
        tree.add(members[above], members[v]);
      }
    }
  }
}

// ---- Down ----

BroadcastSteps::BroadcastSteps(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape)
    : AlongTree(builder, carrier, tree, shape),
      calls_(tree.parent.size()),
      given_(tree.parent.size()),
      by_depth_(tree.by_depth()) {
  for (const int x : tree_.order) {
    if (!shape_.zero_copy && (by_store() ? has_near_parent(x) : has_near_child(x))) take_box(x, x);
    if (gets_at_home(x) && shape_.calls)
      calls_[x] = builder_.signal(shape_.queue(0, x), shape_.queue(0, tree_.parent[x]));
  }
}

// Where the member stores what its children shall have.
std::vector<Held> BroadcastSteps::boxes_of(int x) const {
  std::vector<Held> boxes;
  if (!by_store() && boxes_[x]) boxes.push_back(*boxes_[x]);
  for (const int child : tree_.children[x]) {
    if (by_store() && boxes_[child]) boxes.push_back(*boxes_[child]);
  }
  return boxes;
}

Finish BroadcastSteps::ahead(const Finish& finish) {
  Finish wider;
  wider.places = [this, finish](int of_rank) {
    std::vector<Held> places = finish.places(of_rank);
    const std::vector<Held> boxes = boxes_of(tree_.root());
    places.insert(places.end(), boxes.begin(), boxes.end());
    return places;
  };
  wider.stored = [this, finish](int, ChunkRange range) { hand_on(tree_.root(), range, finish); };
  return wider;
}

void BroadcastSteps::give(ChunkRange range, const Finish& finish) {
  const int root = tree_.root();
  const std::vector<Place> boxes = places_at(boxes_of(root), range.first);
  if (!boxes.empty()) reduce(root, boxes, {finish.places(rank(root))[0].at(range.first)}, range);
  for (const int child : tree_.children[root]) hand_to(child, root, range, finish);
}

void BroadcastSteps::follow(int depth, const Finish& finish) {
  for (const int x : by_depth_[depth]) take(x, finish);
}

void follow(std::deque<BroadcastSteps>& trees, const Finish& finish) {
  int deepest = 0;
  for (const BroadcastSteps& it : trees) deepest = std::max(deepest, it.depth());
  for (int depth = 1; depth <= deepest; ++depth) {
    for (BroadcastSteps& it : trees) {
      if (depth <= it.depth()) it.follow(depth, finish);
    }
  }
}

// The member stores what came where it belongs, and where its children get it.
void BroadcastSteps::take(int x, const Finish& finish) {
  const std::vector<Held> homes = finish.places(rank(x)), boxes = boxes_of(x);
  for (const Given& it : std::exchange(given_[x], {})) {
    carrier_.await(it.arrival);
    std::vector<Place> places = beside({it.arrival.place}, places_at(homes, it.range.first));
    for (const Held& box : boxes) places.push_back(box.at(it.range.first));
    if (!places.empty()) reduce(x, places, {it.arrival.place}, it.range);
    hand_on(x, it.range, finish);
  }
}

// A range is stored at the member. Children come first, since others wait for them.
void BroadcastSteps::hand_on(int x, ChunkRange range, const Finish& finish) {
  for (const int child : tree_.children[x]) hand_to(child, x, range, finish);
  if (finish.stored) finish.stored(rank(x), range);
}

void BroadcastSteps::hand_to(int child, int x, ChunkRange range, const Finish& finish) {
  const QueueId from = queue(x, range), to = queue(child, range);
  const auto home = [&](int of) { return finish.places(rank(of))[0].at(range.first); };
  const auto give = [&](const Arrival& arrival) { given_[child].push_back({range, arrival}); };
  if (gets_at_home(child)) {
    if (calls_[child]) builder_.wait(*std::exchange(calls_[child], std::nullopt));
    return give(carrier_.put(from, {home(x)}, {}, to, home(child), range));
  }
  if (by_store() && boxes_[child]) return give({boxes_[child]->at(range.first), builder_.signal(from, to)});
  const Place source = together(x, child) ? boxes_[x]->at(range.first) : home(x);
  give(carrier_.expose(from, source, to, range, home(child)));
}

// ---- Up ----

namespace {

class Reduction : AlongTree {
 public:
  // Without a result, the root does not combine what it has.
  Reduction(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape, const HeldByRank& held,
            std::optional<Held> result)
      : AlongTree(builder, carrier, tree, shape),
        held_(held),
        result_(result),
        by_height_(tree.by_height()),
        arrivals_(shape.parts, std::vector<std::optional<Arrival>>(tree.parent.size())) {
    for (const int x : tree_.order) {
      if (tree_.parent[x] >= 0 && !is_read_in_place(x)) take_box(x, owner_of_box(x));
    }
    if (!result_) at_root_ = held_[rank(tree_.root())];
  }

  // Step by step, so that those of other trees may come in between.
  int height() const { return static_cast<int>(by_height_.size()) - 1; }
  void combine_at(int height, int part) {
    for (const int x : by_height_[height]) combine(part, x);
    if (height == this->height() && shape_.after_root) shape_.after_root(part);
  }
  const std::vector<Held>& at_root() const { return at_root_; }

  // At the end: a rank whose input its parent has read must not return before that is over. Adds what ranks have to
  // await.
  void return_inputs(std::vector<SignalId>& answers) {
    for (const int x : tree_.order) {
      if (!has_near_parent(x) || !is_read_in_place(x) || has_slots(held_[rank(x)][0].place.buffer)) continue;
      for (int queue = 0; queue < shape_.queues_in_use(); ++queue)
        answers.push_back(builder_.signal(shape_.queue(queue, tree_.parent[x]), shape_.queue(queue, x)));
    }
  }

 private:
  // A leaf's data can be sent as it is, and fetched if the parent may load it. All other ranks have sums.
  bool is_read_in_place(int x) const {
    const std::vector<Held>& held = held_[rank(x)];
    if (!is_leaf(x) || held.size() != 1) return false;
    if (!has_near_parent(x)) return true;
    return !by_store() && (shape_.zero_copy || has_slots(held[0].place.buffer));
  }
  // By store, a member stores its sum where the parent needs it, else in its own scratch.
  bool is_stored_at_parent(int x) const { return by_store() && has_near_parent(x); }
  int owner_of_box(int x) const { return is_stored_at_parent(x) ? tree_.parent[x] : x; }

  void combine(int part, int x) {
    const int parent = tree_.parent[x];
    const ChunkRange range = shape_.range(part);
    std::vector<Place> sources = places_at(held_[rank(x)], range.first), arrived;
    for (const int child : tree_.children[x]) {
      carrier_.await(*arrivals_[part][child]);
      arrived.push_back(arrivals_[part][child]->place);
    }
    sources.insert(by_store() ? sources.begin() : sources.end(), arrived.begin(), arrived.end());
    if (parent < 0) return finish_root(part, sources, arrived);
    const QueueId from = shape_.queue(part, x), to = shape_.queue(part, parent);
    const Place result = is_read_in_place(x) ? sources[0] : boxes_[x]->at(range.first);
    if (!is_read_in_place(x)) reduce(x, {result}, sources, range);
    if (is_stored_at_parent(x)) {
      arrivals_[part][x] = {result, builder_.signal(from, to)};
    } else {
      arrivals_[part][x] = carrier_.expose(from, result, to, range, landing(x, part));
    }
  }

  void finish_root(int part, const std::vector<Place>& sources, const std::vector<Place>& arrived) {
    const ChunkRange range = shape_.range(part);
    const int first = range.first;
    if (result_) return reduce(tree_.root(), {result_->at(first)}, sources, range);
    for (const Place& place : arrived) {
      if (part == 0) at_root_.push_back({place, first});
    }
  }

  // The root's parts for others have to lie together.
  std::optional<Place> landing(int x, int part) {
    if (result_ || tree_.parent[x] != tree_.root() || has_near_parent(x)) return std::nullopt;
    auto& all = landings_[x];
    if (!all) all = builder_.take_scratch(rank(tree_.root()), shape_.parts * shape_.part_chunks);
    return slot_after(*all, part * shape_.part_chunks);
  }

  const HeldByRank& held_;
  const std::optional<Held> result_;
  std::vector<Held> at_root_;  // what it has to combine, if there is no result
  std::unordered_map<int, std::optional<Place>> landings_;
  const std::vector<std::vector<int>> by_height_;
  std::vector<std::vector<std::optional<Arrival>>> arrivals_;  // [part][member]: at its parent
};

}  // namespace

void broadcast_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape, Held source) {
  broadcast_along(builder, carrier, tree, shape, {source}, to_outputs());
}

void broadcast_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape,
                     const std::vector<Held>& sources, const Finish& finish) {
  broadcast_from_roots(builder, carrier, {tree}, {shape}, {sources}, finish);
}

void broadcast_from_roots(PlanBuilder& builder, Carrier& carrier, const std::vector<Tree>& trees,
                          const std::vector<TreeShape>& shapes, const std::vector<std::vector<Held>>& at_roots,
                          const Finish& finish) {
  std::deque<BroadcastSteps> all;
  for (size_t i = 0; i < trees.size(); ++i) {
    const TreeShape& shape = shapes[i];
    const Finish of_root = all.emplace_back(builder, carrier, trees[i], shape).ahead(finish);
    for (int part = 0; part < shape.parts; ++part) {
      if (shape.before_root) shape.before_root(part);
      const ChunkRange range = shape.range(part);
      const QueueId root = shape.queue(part, trees[i].root());
      const std::vector<Place> sources = places_at(at_roots[i], range.first);
      const std::vector<Place> places = beside(sources, places_at(of_root.places(root.rank), range.first));
      if (!places.empty()) builder.reduce(root, places, sources, range.first, range.count);
      of_root.stored(root.rank, range);
    }
  }
  follow(all, finish);
}

namespace {

// Calls visit(height, reduction) for each height of each tree, what waits for nobody first.
template <class Visit>
void by_height(std::deque<Reduction>& all, const Visit& visit) {
  int highest = 0;
  for (const Reduction& it : all) highest = std::max(highest, it.height());
  for (int height = 0; height <= highest; ++height) {
    for (Reduction& it : all) {
      if (height <= it.height()) visit(height, it);
    }
  }
}

// Members are in several trees. If a part waited for the part before it in another tree, each part would take as many
// steps again.
void combine_all_parts(std::deque<Reduction>& all, int parts) {
  by_height(all, [&](int height, Reduction& it) {
    for (int part = 0; part < parts; ++part) it.combine_at(height, part);
  });
}

}  // namespace

void reduce_along(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape,
                  const HeldByRank& held, Held result) {
  reduce_along(builder, carrier, std::vector{tree}, {shape}, held, result);
}

void reduce_along(PlanBuilder& builder, Carrier& carrier, const std::vector<Tree>& trees,
                  const std::vector<TreeShape>& shapes, const HeldByRank& held, Held result) {
  std::deque<Reduction> all;
  for (size_t i = 0; i < trees.size(); ++i) all.emplace_back(builder, carrier, trees[i], shapes[i], held, result);
  if (all.size() == 1) {
    for (int part = 0; part < shapes[0].parts; ++part) {
      by_height(all, [&](int height, Reduction& it) { it.combine_at(height, part); });
    }
  } else {
    combine_all_parts(all, shapes[0].parts);
  }
  // All say so before any waits, or ranks that are in several trees would wait for one another in turn.
  std::vector<SignalId> answers;
  for (Reduction& it : all) it.return_inputs(answers);
  for (const SignalId& it : answers) builder.wait(it);
}

std::vector<Held> reduce_to_root(PlanBuilder& builder, Carrier& carrier, const Tree& tree, const TreeShape& shape,
                                 const HeldByRank& held) {
  return reduce_to_roots(builder, carrier, {tree}, {shape}, held)[0];
}

std::vector<std::vector<Held>> reduce_to_roots(PlanBuilder& builder, Carrier& carrier, const std::vector<Tree>& trees,
                                               const std::vector<TreeShape>& shapes, const HeldByRank& held) {
  std::deque<Reduction> all;
  for (size_t i = 0; i < trees.size(); ++i) all.emplace_back(builder, carrier, trees[i], shapes[i], held, std::nullopt);
  combine_all_parts(all, shapes[0].parts);
  std::vector<std::vector<Held>> at_roots;
  for (const Reduction& it : all) at_roots.push_back(it.at_root());
  return at_roots;
}

}  // namespace plait
