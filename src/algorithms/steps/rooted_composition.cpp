// Broadcast and reduce over levels.
#include "algorithms/steps/rooted_composition.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/broadcast_levels.hpp"
#include "algorithms/steps/composition.hpp"
#include "algorithms/steps/levels.hpp"
#include "algorithms/steps/machine_levels.hpp"
#include "algorithms/steps/tree.hpp"
#include "algorithms/steps/units.hpp"

namespace plait {
namespace {

constexpr int kMostStoringQueues =
    2;  // where levels pass on what comes: while one waits for its stores, another stores

bool is_by_store(const Level& level) { return level.direction == Direction::kStore; }

void check_level(const Algorithm& algorithm, const AlgorithmArguments& arguments, const Level& level) {
  const auto refuse_level = [&](const auto&... why) {
    refuse(algorithm, "level '", to_text(level), "' of a ", name(arguments.collective), " ", why...);
  };
  if (!serves(find_level_algorithm(level.algorithm), arguments.collective)) {
    refuse_level("has no way of its own; use one of: ", level_algorithms_for(arguments.collective));
  }
  if (level.parts != 1) refuse_level("has parts of its own; let the whole hierarchy have them, parts=", level.parts);
  if (level.leaders > 0) refuse_level("has leaders, but one rank of each unit leads; leave leaders out");
  if (level.all_reduce) refuse_level("makes no all-reduce; leave all_reduce out");
}

// Zero-copy, parents in a tree store to their children's outputs, or load from their inputs.
void check_zero_copy(const Algorithm& algorithm, const AlgorithmArguments& arguments, const Level& level) {
  const bool broadcasts = arguments.collective == Collective::kBroadcast;
  const Direction only = broadcasts ? Direction::kStore : Direction::kLoad;
  const Direction direction = level.direction.value_or(Direction::kLoad);
  const bool is_tree = !broadcasts || find_level_algorithm(level.algorithm).broadcast.streams;
  if (!is_tree || direction == only) return;
  refuse(algorithm, "level '", to_text(level), "' of a zero-copy ", name(arguments.collective), " goes by ", name(only),
         ", not by ", name(direction));
}

void check_rooted_levels(const Algorithm& algorithm, const AlgorithmArguments& arguments,
                         const std::vector<Level>& levels) {
  for (const Level& level : levels) {
    check_level(algorithm, arguments, level);
    if (arguments.access == Access::kZeroCopy) check_zero_copy(algorithm, arguments, level);
  }
}

// ---- Broadcast ----

// The chunks of a part of the message: every level can cut it as it likes.
int64_t chunks_of_levels(const std::vector<Level>& levels, const std::vector<std::vector<Units>>& blocks) {
  int64_t chunks = 1;
  for (size_t i = 0; i < levels.size(); ++i) {
    const BroadcastAlgorithm& algorithm = find_level_algorithm(levels[i].algorithm).broadcast;
    for (const Units& block : blocks[i]) {
      chunks = std::lcm(chunks, algorithm.chunks(static_cast<int>(block.size())));
      if (chunks >= kTooManyChunks) return kTooManyChunks;
    }
  }
  return chunks;
}

int most_queues(const std::vector<Level>& levels, bool zero_copy) {
  const bool stream = std::all_of(levels.begin(), levels.end(), [](const Level& level) {
    return find_level_algorithm(level.algorithm).broadcast.streams;
  });
  if (!stream) return kMostQueuesOfParts;
  return !zero_copy && std::any_of(levels.begin(), levels.end(), is_by_store) ? kMostStoringQueues : 1;
}

// One part of the message on its way from the root.
class BroadcastPart {
 public:
  // calls: zero-copy, whether ranks have yet to say in these queues that they were called.
  BroadcastPart(PlanBuilder& builder, Carrier& carrier, const AlgorithmArguments& arguments,
                const std::vector<QueueId>& queues, ChunkRange range, bool calls)
      : builder_(builder),
        carrier_(carrier),
        root_(queues[arguments.root]),
        queues_(queues),
        range_(range),
        zero_copy_(arguments.access == Access::kZeroCopy),
        calls_(calls && zero_copy_),
        is_near_(on_one_node(arguments)),
        held_(queues.size()) {}

  void make(const std::vector<Level>& levels, const std::vector<std::vector<Units>>& blocks) {
    std::vector<Finish> finishes = {to_outputs()};
    for (size_t level = 0; level < levels.size(); ++level) {
      add_lists(levels[level], blocks[level]);
      finishes.push_back(ahead(finishes.back()));
    }
    // The others come first if none of them needs what the root stores. Messages do: in place, the root may not store
    // while they leave.
    const bool is_last = is_near_ && !finishes.back().stored;
    held_[root_.rank] = {{is_last ? input_of(root_.rank) : output_of(root_.rank)}};
    if (!is_last) store_at_root(finishes.back());
    for (size_t level = levels.size(); level-- > 0;) {
      for (const auto& [leader, list] : lists_[level]) {
        if (leader != root_.rank) held_[leader] = {finishes[level].places(leader)[0]};
        list->follow(held_, finishes[level]);
      }
    }
    if (is_last) store_at_root(finishes.back());
  }

 private:
  struct List {
    int leader;
    std::unique_ptr<BroadcastLevel> steps;
  };

  void add_lists(const Level& level, const std::vector<Units>& blocks) {
    std::vector<List>& lists = lists_.emplace_back();
    for (const Units& units : blocks) {
      BroadcastShape shape{.range = range_, .level = level, .stores_to_peers = zero_copy_, .calls = calls_};
      for (const std::vector<int>& unit : units) shape.queues.push_back(queues_[unit[0]]);
      lists.push_back({units[0][0], find_level_algorithm(level.algorithm).broadcast.make(builder_, carrier_, shape)});
    }
  }

  // Where leaders shall get what comes from the level above.
  Finish ahead(const Finish& finish) {
    std::unordered_map<int, Finish> of_leaders;
    for (const auto& [leader, list] : lists_.back()) of_leaders[leader] = list->ahead(finish);
    return of_each(std::move(of_leaders));
  }

  void store_at_root(const Finish& finish) {
    const std::vector<Place> places = places_at(finish.places(root_.rank), range_.first);
    builder_.reduce(root_, places, {input_of(root_.rank)}, range_.first, range_.count);
    if (finish.stored) finish.stored(root_.rank, range_);
  }

  PlanBuilder& builder_;
  Carrier& carrier_;
  const QueueId root_;
  const std::vector<QueueId>& queues_;
  const ChunkRange range_;
  const bool zero_copy_, calls_;
  const bool is_near_;                    // all ranks are on one node
  HeldByRank held_;                       // of leaders: where they have the part
  std::vector<std::vector<List>> lists_;  // [level]
};

// ---- Reduce ----

// That of all levels which name one.
Direction direction_of(const Algorithm& algorithm, const AlgorithmArguments& arguments,
                       const std::vector<Level>& levels) {
  const auto first = std::ranges::find_if(levels, [](const Level& level) { return level.direction.has_value(); });
  if (first == levels.end()) return best_direction(arguments);
  for (const Level& level : levels) {
    if (!level.direction || level.direction == first->direction) continue;
    refuse(algorithm, "level '", to_text(level), "' of a reduce moves data the other way than '", to_text(*first), "'");
  }
  return *first->direction;
}

}  // namespace

Plan compose_broadcast(const Algorithm& algorithm, const AlgorithmArguments& arguments,
                       const std::vector<Level>& levels, int parts) {
  check_rooted_levels(algorithm, arguments, levels);
  const auto blocks = blocks_of(algorithm, arguments, levels);
  PlanBuilder builder = start_plan(algorithm, arguments, chunks_of_levels(levels, blocks) * parts);
  Carrier carrier(builder, arguments.node_of);
  std::vector<std::vector<QueueId>> queues;
  for (int i = std::min(parts, most_queues(levels, arguments.access == Access::kZeroCopy)); i > 0; --i) {
    queues.push_back(add_queues(builder, arguments));
  }
  const int chunks = builder.chunk_count() / parts;
  for (int part = 0; part < parts; ++part) {
    const bool calls = part < static_cast<int>(queues.size());
    BroadcastPart(builder, carrier, arguments, queues[part % queues.size()], {part * chunks, chunks}, calls)
        .make(levels, blocks);
  }
  return builder.finish();
}

Plan compose_reduce(const Algorithm& algorithm, const AlgorithmArguments& arguments, const std::vector<Level>& levels,
                    int parts) {
  check_rooted_levels(algorithm, arguments, levels);
  TreeShape shape;
  shape.parts = parts;
  shape.direction = direction_of(algorithm, arguments, levels);
  shape.zero_copy = arguments.access == Access::kZeroCopy;
  const auto blocks = blocks_of(algorithm, arguments, levels);
  const int64_t pieces = pieces_of_trees(levels, blocks);
  PlanBuilder builder = start_plan(algorithm, arguments, pieces * parts);
  builder.expect(pieces * parts * arguments.ranks);  // each rank combines each part of each piece
  const std::vector<Tree> trees = trees_over(arguments, levels, blocks);
  Carrier carrier(builder, arguments.node_of);
  const bool stores = shape.direction == Direction::kStore && !shape.zero_copy;
  for (int i = 0; i < (stores ? std::min(parts, kMostStoringQueues) : 1); ++i) {
    shape.queues.push_back(add_queues(builder, arguments));
  }
  std::vector<TreeShape> shapes;
  for (int piece = 0; piece < static_cast<int>(trees.size()); ++piece) {
    shape.first_chunk = piece * parts;
    shapes.push_back(shape);
  }
  reduce_along(builder, carrier, trees, shapes, all_inputs(arguments.ranks), {output_of(arguments.root)});
  return builder.finish();
}

}  // namespace plait
