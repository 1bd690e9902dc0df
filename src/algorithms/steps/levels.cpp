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

// ---- trees: the first member gets everything ----

void binomial_below(Tree& tree, const std::vector<int>& ranks, const Level& level) {
  add_knomial(tree, ranks, level.radix);
}

void chain_below(Tree& tree, const std::vector<int>& ranks, const Level&) {
  for (size_t x = 1; x < ranks.size(); ++x) tree.add(ranks[x - 1], ranks[x]);
}

void star_below(Tree& tree, const std::vector<int>& ranks, const Level&) {
  for (size_t x = 1; x < ranks.size(); ++x) tree.add(ranks[0], ranks[x]);
}

template <void (*kAdd)(Tree&, const std::vector<int>&, const Level&)>
class TreeLevel : public LevelSteps {
 public:
  TreeLevel(PlanBuilder& builder, Carrier& carrier, const LevelShape& shape)
      : LevelSteps(shape.queues),
        builder_(builder),
        carrier_(carrier),
        range_(shape.range),
        tree_(rank_of(0), builder.rank_count()) {
    kAdd(tree_, ranks(), shape.level);
    shape_.queues.emplace_back(builder.rank_count());
    for (int x = 0; x < members(); ++x) shape_.queues[0][rank_of(x)] = shape.queues[x];
    shape_.first_chunk = range_.first;
    shape_.parts = shape.level.parts;
    shape_.part_chunks = range_.count / shape_.parts;
    shape_.direction = shape.level.direction.value_or(Direction::kLoad);
  }

  ChunkRange share(int x) const override { return {range_.first, x == 0 ? range_.count : 0}; }
  void reduce_scatter(HeldByRank& held) override {
    std::vector<Held> at_root = reduce_to_root(builder_, carrier_, tree_, shape_, held);
    for (const int rank : ranks()) held[rank].clear();
    held[rank_of(0)] = std::move(at_root);
  }
  void all_gather(const HeldByRank& held, const Finish& finish) override {
    broadcast_along(builder_, carrier_, tree_, shape_, held[rank_of(0)], finish);
  }

 private:
  PlanBuilder& builder_;
  Carrier& carrier_;
  const ChunkRange range_;
  Tree tree_;
  TreeShape shape_;
};

// ---- recursive halving and doubling: pieces of equal size ----

class HalvingLevel : public LevelSteps {
 public:
  HalvingLevel(PlanBuilder& builder, Carrier& carrier, const LevelShape& shape)
      : LevelSteps(shape.queues), halving_(builder, carrier, halving_shape(shape)) {}

  ChunkRange share(int x) const override { return halving_.piece_of(x); }
  void reduce_scatter(HeldByRank& held) override { halving_.reduce_scatter(held); }
  void settle() override { halving_.settle(); }
  void store(const HeldByRank& held, const Finish& finish) override { halving_.store(held, finish); }
  void all_gather(const HeldByRank& held, const Finish& finish) override { halving_.all_gather(held, finish); }

 private:
  static HalvingSteps::Shape halving_shape(const LevelShape& shape) {
    const int members = static_cast<int>(shape.queues.size());
    HalvingSteps::Shape halving;
    halving.queues = shape.queues;
    halving.factors = core_factors({}, members);
    halving.first_chunk = shape.range.first;
    halving.piece_chunks = shape.range.count / members;
    halving.stores_to_peers = shape.stores_to_peers;
    return halving;
  }

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
int64_t pieces_in_parts(const Level& level, int members) { return int64_t{members} * level.parts; }
int64_t piece_of_each(const Level&, int members) { return members; }
int64_t one(const Level&, int) { return 1; }
int64_t piece_of_each_leader(const Level& level, int members) { return leaders_of(level, members); }
int64_t parts_of_all(const Level& level, int) { return level.parts; }

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
       .make = made_as<TreeLevel<binomial_below>>,
       .add_to_tree = binomial_below},
      {.name = "chain",
       .parts = true,
       .direction = true,
       .shares = only_first,
       .chunks = parts_of_all,
       .make = made_as<TreeLevel<chain_below>>,
       .add_to_tree = chain_below},
      {.name = "flat",
       .leaders = true,
       .direction = true,
       .shares = leaders_of,
       .chunks = piece_of_each_leader,
       .make = made_as<LeaderLevel>,
       .add_to_tree = star_below},
      {.name = "rabenseifner", .shares = every_member, .chunks = piece_of_each, .make = made_as<HalvingLevel>},
      {.name = "recursive_doubling",
       .whole = true,
       .shares = only_first,
       .chunks = one,
       .make = made_as<DoublingLevel>},
      {.name = "ring", .parts = true, .shares = every_member, .chunks = pieces_in_parts, .make = made_as<RingLevel>},
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
