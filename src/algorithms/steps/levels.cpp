// Algorithms as levels of a hierarchy.
#include "algorithms/steps/levels.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "algorithms/steps/doubling.hpp"
#include "algorithms/steps/halving.hpp"
#include "algorithms/steps/leaders.hpp"
#include "algorithms/steps/ring.hpp"
#include "algorithms/steps/tree.hpp"
#include "base/error.hpp"
#include "base/names.hpp"

namespace plait {
namespace {

std::vector<Held> first_of(const std::vector<Held>& places) { return {places[0]}; }

// ---- ring: pieces of equal size, in parts ----

class RingLevel : public LevelSteps {
 public:
  RingLevel(PlanBuilder& builder, Carrier& carrier, const LevelShape& shape)
      : LevelSteps(shape.queues), range_(shape.range), ring_(builder, carrier, ring_shape(shape)) {}

  ChunkRange share(int x) const override {
    const int chunks = range_.count / members();
    return {range_.first + x * chunks, chunks};
  }
  void reduce_scatter(HeldByRank& held) override { ring_.reduce_scatter(held); }
  void settle() override { ring_.settle(); }
  void store(const HeldByRank& held, const Finish& finish) override { ring_.store(held, finish); }
  void all_gather(const HeldByRank& held, const Finish& finish) override { ring_.all_gather(held, finish); }

 private:
  static RingSteps::Shape ring_shape(const LevelShape& shape) {
    RingSteps::Shape ring;
    ring.queues = shape.queues;
    ring.first_chunk = shape.range.first;
    ring.parts = shape.level.parts;
    ring.part_chunks = shape.range.count / static_cast<int>(shape.queues.size()) / ring.parts;
    ring.scatters = shape.scatters;
    ring.gathers = shape.gathers;
    ring.stores_to_peers = shape.stores_to_peers;
    return ring;
  }

  const ChunkRange range_;
  RingSteps ring_;
};

// ---- flat: everybody gives to every leader ----

int leaders_of(const Level& level, int members) {
  return level.leaders == 0 ? members : std::min(level.leaders, members);
}

class LeaderLevel : public LevelSteps {
 public:
  LeaderLevel(PlanBuilder& builder, Carrier& carrier, const LevelShape& shape)
      : LevelSteps(shape.queues), leaders_(builder, carrier, leader_shape(shape)) {}

  ChunkRange share(int x) const override { return leaders_.piece(x); }
  void reduce_scatter(HeldByRank& held) override { leaders_.reduce_scatter(held); }
  void settle() override { leaders_.settle(); }
  void store(const HeldByRank& held, const Finish& finish) override { leaders_.store(held, finish); }
  void all_gather(const HeldByRank& held, const Finish& finish) override { leaders_.all_gather(held, finish); }
  // A range is on its way to the members as soon as the level above has stored it.
  Finish ahead(const Finish& finish) override { return leaders_.ahead(finish); }
  void follow(const Finish& finish) override { leaders_.follow(finish); }

 private:
  static LeaderSteps::Shape leader_shape(const LevelShape& shape) {
    return {.queues = shape.queues,
            .range = shape.range,
            .leaders = leaders_of(shape.level, static_cast<int>(shape.queues.size())),
            .direction = shape.level.direction.value_or(Direction::kLoad),
            .reads_inputs = shape.reads_inputs,
            .stores_to_peers = shape.stores_to_peers};
  }

  LeaderSteps leaders_;
};

// ---- trees: the root of each gets the piece that goes along it ----

template <TreesOf kTrees>
class TreesLevel : public LevelSteps {
 public:
  TreesLevel(PlanBuilder& builder, Carrier& carrier, const LevelShape& shape)
      : LevelSteps(shape.queues),
        builder_(builder),
        carrier_(carrier),
        range_(shape.range),
        trees_(kTrees(members(), shape.level)),
        shapes_(shapes_of_trees(trees_, shape.queues, shape.range, shape.level)) {}

  ChunkRange share(int x) const override {
    const auto trees = static_cast<int>(trees_.size());
    return x < trees ? shapes_[x].range() : ChunkRange{range_.first, 0};
  }
  void reduce_scatter(HeldByRank& held) override {
    auto at_roots = reduce_to_roots(builder_, carrier_, trees_, shapes_, held);
    for (const int rank : ranks()) held[rank].clear();
    for (size_t x = 0; x < trees_.size(); ++x) held[rank_of(static_cast<int>(x))] = std::move(at_roots[x]);
  }
  // Two trees of two members leave each with a share.
  void store(const HeldByRank& held, const Finish& finish) override {
    for (size_t x = 0; x < trees_.size(); ++x) {
      const ChunkRange it = shapes_[x].range();
      const QueueId root = shapes_[x].queue(0, static_cast<int>(x));
      builder_.reduce(root, places_at(finish.places(root.rank), it.first), places_at(held[root.rank], it.first),
                      it.first, it.count);
      if (finish.stored) finish.stored(root.rank, it);
    }
  }
  void all_gather(const HeldByRank& held, const Finish& finish) override {
    std::vector<std::vector<Held>> at_roots;
    for (size_t x = 0; x < trees_.size(); ++x) at_roots.push_back(held[rank_of(static_cast<int>(x))]);
    broadcast_from_roots(builder_, carrier_, trees_, shapes_, at_roots, finish);
  }

 private:
  PlanBuilder& builder_;
  Carrier& carrier_;
  const ChunkRange range_;
  const std::vector<Tree> trees_;
  const std::vector<TreeShape> shapes_;
};

// ---- recursive halving and doubling: pieces of equal size ----

class HalvingLevel : public LevelSteps {
 public:
  HalvingLevel(PlanBuilder& builder, Carrier& carrier, const LevelShape& shape)
      : LevelSteps(shape.queues),
        halving_(builder, carrier, halving_over(shape.queues, shape.range, shape.stores_to_peers)) {}

  ChunkRange share(int x) const override { return halving_.piece_of(x); }
  void reduce_scatter(HeldByRank& held) override { halving_.reduce_scatter(held); }
  void settle() override { halving_.settle(); }
  void store(const HeldByRank& held, const Finish& finish) override { halving_.store(held, finish); }
  void all_gather(const HeldByRank& held, const Finish& finish) override { halving_.all_gather(held, finish); }

 private:
  HalvingSteps halving_;
};

// ---- recursive doubling: whole messages ----

class DoublingLevel : public LevelSteps {
 public:
  DoublingLevel(PlanBuilder& builder, Carrier& carrier, const LevelShape& shape)
      : LevelSteps(shape.queues), range_(shape.range), doubling_(builder, carrier, doubling_shape(shape)) {}

  ChunkRange share(int) const override { return range_; }
  // There is no first half.
  void reduce_scatter(HeldByRank&) override {}
  void all_gather(const HeldByRank& held, const Finish& finish) override { doubling_.all_reduce(held, finish); }

 private:
  static DoublingSteps::Shape doubling_shape(const LevelShape& shape) {
    return {.queues = shape.queues, .range = shape.range, .stores_to_peers = shape.stores_to_peers};
  }

  const ChunkRange range_;
  DoublingSteps doubling_;
};

// ---- any algorithm as an all-reduce ----

// Every member gets the whole sum, in scratch of its own.
class WholeLevel : public LevelSteps {
 public:
  WholeLevel(PlanBuilder& builder, const LevelShape& shape, std::unique_ptr<LevelSteps> steps)
      : LevelSteps(shape.queues), builder_(builder), range_(shape.range), steps_(std::move(steps)) {}

  ChunkRange share(int) const override { return range_; }
  void reduce_scatter(HeldByRank& held) override {
    std::unordered_map<int, Held> sums;
    for (const int rank : ranks()) sums[rank] = {builder_.take_scratch(rank, range_.count), range_.first};
    steps_->reduce_scatter(held);
    steps_->all_gather(held, {[&](int rank) { return std::vector{sums.at(rank)}; }});
    for (const auto& [rank, sum] : sums) held[rank] = {sum};
  }
  void all_gather(const HeldByRank&, const Finish&) override {
    fail(ErrorCode::kInternal, "a level that makes an all-reduce has nothing to gather");
  }
  // The level above stores the result at every member.
  Finish ahead(const Finish& finish) override { return finish; }
  void follow(const Finish&) override {}

 private:
  PlanBuilder& builder_;
  const ChunkRange range_;
  std::unique_ptr<LevelSteps> steps_;
};

// ---- the list ----

template <class Steps>
std::unique_ptr<LevelSteps> made_as(PlanBuilder& builder, Carrier& carrier, const LevelShape& shape) {
  return std::make_unique<Steps>(builder, carrier, shape);
}

int every_member(const Level&, int members) { return members; }
int only_first(const Level&, int) { return 1; }
int first_two(const Level&, int members) { return std::min(members, 2); }
int64_t pieces_in_parts(const Level& level, int members) { return int64_t{members} * level.parts; }
int64_t piece_of_each(const Level&, int members) { return members; }
int64_t one(const Level&, int) { return 1; }
int64_t piece_of_each_leader(const Level& level, int members) { return leaders_of(level, members); }
int64_t parts_of_all(const Level& level, int) { return level.parts; }
int64_t parts_of_halves(const Level& level, int members) { return int64_t{first_two(level, members)} * level.parts; }

}  // namespace

std::vector<int> LevelSteps::ranks() const {
  std::vector<int> all;
  for (const QueueId& queue : queues_) all.push_back(queue.rank);
  return all;
}

void LevelSteps::store(const HeldByRank&, const Finish&) {
  fail(ErrorCode::kInternal, "a level whose members have no shares of their own has nothing to store");
}

Finish LevelSteps::ahead(const Finish& finish) {
  return {[finish](int rank) { return first_of(finish.places(rank)); }};
}

void LevelSteps::follow(const Finish& finish) {
  HeldByRank stored;
  for (const int rank : ranks()) {
    if (static_cast<size_t>(rank) >= stored.size()) stored.resize(rank + 1);
    stored[rank] = first_of(finish.places(rank));
  }
  all_gather(stored, finish);
}

const std::vector<LevelAlgorithm>& level_algorithms() {
  // Never destroyed: static destructors of a program still make calls.
  static const auto& all = *new const std::vector<LevelAlgorithm>{
      {.name = "binomial",
       .parts = true,
       .direction = true,
       .radix = true,
       .shares = only_first,
       .chunks = parts_of_all,
       .make = made_as<TreesLevel<one_tree<add_binomial>>>,
       .broadcast = broadcast_by_binomial(),
       .reduce = kBinomialTree},
      {.name = "chain",
       .parts = true,
       .direction = true,
       .shares = only_first,
       .chunks = parts_of_all,
       .make = made_as<TreesLevel<one_tree<add_chain>>>,
       .broadcast = broadcast_by_chain(),
       .reduce = kChain},
      {.name = "double_binary_tree",
       .parts = true,
       .direction = true,
       .shares = first_two,
       .chunks = parts_of_halves,
       .make = made_as<TreesLevel<two_trees_of_first_two>>,
       .broadcast = broadcast_by_double_binary_tree(),
       .reduce = kDoubleBinaryTree},
      {.name = "flat",
       .leaders = true,
       .direction = true,
       .shares = leaders_of,
       .chunks = piece_of_each_leader,
       .make = made_as<LeaderLevel>,
       .broadcast = broadcast_by_star(),
       .reduce = kStar},
      {.name = "rabenseifner", .shares = every_member, .chunks = piece_of_each, .make = made_as<HalvingLevel>},
      {.name = "recursive_doubling",
       .whole = true,
       .shares = only_first,
       .chunks = one,
       .make = made_as<DoublingLevel>},
      {.name = "ring",
       .parts = true,
       .shares = every_member,
       .chunks = pieces_in_parts,
       .make = made_as<RingLevel>,
       .reduce = kChainsOfRing},
      {.name = "scatter_recursive_doubling", .direction = true, .broadcast = broadcast_by_scatter_recursive_doubling()},
      {.name = "scatter_ring", .direction = true, .broadcast = broadcast_by_scatter_ring()},
  };
  return all;
}

const LevelAlgorithm& find_level_algorithm(std::string_view name) {
  std::vector<std::string_view> names;
  std::string list;
  for (const LevelAlgorithm& it : level_algorithms()) {
    if (same_name(it.name, name)) return it;
    names.push_back(it.name);
    list += join(list.empty() ? "" : ", ", it.name);
  }
  fail(ErrorCode::kInvalidArgument, "'", name, "' is no algorithm for a level; use one of: ", list,
       did_you_mean(name, names));
}

bool serves(const LevelAlgorithm& algorithm, Collective collective) {
  if (collective == Collective::kBroadcast) return algorithm.broadcast.make != nullptr;
  if (collective == Collective::kReduce) return algorithm.reduce.make != nullptr;
  if (algorithm.make == nullptr) return false;
  // Every member has a share, so that it can be the member's block.
  return !has_rank_blocks(collective) || algorithm.shares({.algorithm = std::string(algorithm.name)}, 3) == 3;
}

std::string level_algorithms_for(Collective collective) {
  std::string names;
  for (const LevelAlgorithm& it : level_algorithms()) {
    if (serves(it, collective)) names += join(names.empty() ? "" : ", ", it.name);
  }
  return names;
}

int shares_of(const Level& level, int members) {
  return level.all_reduce ? 1 : find_level_algorithm(level.algorithm).shares(level, members);
}

int64_t chunks_of(const Level& level, int members) {
  return find_level_algorithm(level.algorithm).chunks(level, members);
}

std::unique_ptr<LevelSteps> make_level(PlanBuilder& builder, Carrier& carrier, const LevelShape& shape) {
  const LevelAlgorithm& algorithm = find_level_algorithm(shape.level.algorithm);
  if (!shape.level.all_reduce) return algorithm.make(builder, carrier, shape);
  LevelShape inner = shape;
  inner.stores_to_peers = true;  // in scratch
  return std::make_unique<WholeLevel>(builder, shape, algorithm.make(builder, carrier, inner));
}

}  // namespace plait
