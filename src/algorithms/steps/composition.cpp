// Levels above levels.
#include "algorithms/steps/composition.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/host_pairs.hpp"
#include "algorithms/steps/levels.hpp"
#include "algorithms/steps/paths.hpp"
#include "algorithms/steps/rooted_composition.hpp"
#include "algorithms/steps/shares.hpp"
#include "algorithms/steps/units.hpp"
#include "base/figures.hpp"

namespace plait {
namespace {

// ---- All-reduce: shares up and down ----

// The chunks of a part of the message: every level can cut its share of them.
int64_t chunks_for(const std::vector<Level>& levels, const std::vector<std::vector<Units>>& blocks) {
  int64_t chunks = 1, shares = 1;
  for (size_t i = 0; i < levels.size() && chunks < kTooManyChunks; ++i) {
    int64_t shares_here = 1;
    for (const Units& block : blocks[i]) {
      const int members = static_cast<int>(block.size());
      chunks = std::lcm(chunks, shares * chunks_of(levels[i], members));
      shares_here = std::lcm(shares_here, int64_t{shares_of(levels[i], members)});
      if (chunks >= kTooManyChunks) return kTooManyChunks;
    }
    shares *= shares_here;
  }
  return chunks;
}

// A rank that has a share of what its unit has combined.
struct Holder {
  int rank = 0;
  ChunkRange share;
};

// One part of the message on its way through the levels.
class ComposedPart {
 public:
  ComposedPart(PlanBuilder& builder, Carrier& carrier, const std::vector<QueueId>& queues, ChunkRange range,
               const AlgorithmArguments& arguments)
      : builder_(builder),
        carrier_(carrier),
        queues_(queues),
        zero_copy_(arguments.access == Access::kZeroCopy),
        scatters_(arguments.collective != Collective::kAllGather),
        gathers_(arguments.collective != Collective::kReduceScatter),
        held_(all_inputs(builder.rank_count())) {
    for (int rank = 0; rank < builder.rank_count(); ++rank) holders_[rank] = {{rank, range}};
  }

  // Ranks with the same place in their units reduce-scatter. In an all_gather they have their shares from the
  // beginning.
  void go_up(const Algorithm& algorithm, const Level& level, const std::vector<Units>& blocks) {
    if (!lists_.empty()) {
      for (const auto& list : lists_.back()) list->settle();
    }
    lists_.emplace_back();
    for (const Units& units : blocks) join_units(algorithm, level, units);
  }

  // The level that went up last makes an all-reduce.
  void turn() {
    finishes_.push_back(to_outputs());
    for (size_t level = 0; level + 1 < lists_.size(); ++level) finishes_.push_back(ahead(level));
    for (const auto& list : lists_.back()) list->all_gather(held_, finishes_.back());
  }

  void go_down(size_t level) {
    for (const auto& list : lists_[level]) list->follow(finishes_[level]);
  }

  // Instead of turning: every rank stores its share.
  void store() {
    for (const auto& list : lists_.back()) list->store(held_, to_outputs());
  }

 private:
  void join_units(const Algorithm& algorithm, const Level& level, const Units& units) {
    std::vector<Holder> joined;
    const std::vector<Holder> first = holders_[units[0][0]];
    std::vector<std::vector<Holder>> shares(units.size());
    for (size_t j = 0; j < first.size(); ++j) {
      LevelShape shape;
      shape.level = level;
      shape.range = first[j].share;
      shape.scatters = scatters_;
      shape.gathers = gathers_;
      shape.reads_inputs = shape.stores_to_peers = zero_copy_;
      for (const std::vector<int>& unit : units) {
        shape.queues.push_back(queues_[holder(algorithm, level, unit, j, first).rank]);
      }
      auto list = make_level(builder_, carrier_, shape);
      if (scatters_) list->reduce_scatter(held_);
      for (size_t x = 0; x < units.size(); ++x) {
        const ChunkRange share = list->share(static_cast<int>(x));
        if (share.count > 0) shares[x].push_back({shape.queues[x].rank, share});
      }
      lists_.back().push_back(std::move(list));
    }
    for (const auto& of_unit : shares) joined.insert(joined.end(), of_unit.begin(), of_unit.end());
    for (const std::vector<int>& unit : units) holders_.erase(unit[0]);
    holders_[units[0][0]] = std::move(joined);
  }

  // The unit's j-th holder, whose share has to be that of the first unit's.
  const Holder& holder(const Algorithm& algorithm, const Level& level, const std::vector<int>& unit, size_t j,
                       const std::vector<Holder>& first) const {
    const std::vector<Holder>& all = holders_.at(unit[0]);
    if (all.size() != first.size() || !(all[j].share == first[j].share)) {
      refuse(algorithm, "level '", to_text(level), "' joins units of different sizes: that of rank ", unit[0],
             " has its sums on ", counted(all.size(), "rank"), ", that of rank ", first[0].rank, " on ", first.size(),
             "; on a level below, let as many ranks of each unit lead: flat(leaders=1)");
    }
    return all[j];
  }

  // The places where each rank's list wants the shares that the level above combines.
  Finish ahead(size_t level) {
    std::unordered_map<int, Finish> of_ranks;
    for (const auto& list : lists_[level]) {
      const Finish finish = list->ahead(finishes_[level]);
      for (const int rank : list->ranks()) of_ranks[rank] = finish;
    }
    return of_each(std::move(of_ranks));
  }

  PlanBuilder& builder_;
  Carrier& carrier_;
  const std::vector<QueueId>& queues_;
  const bool zero_copy_, scatters_, gathers_;
  HeldByRank held_;
  std::map<int, std::vector<Holder>> holders_;                   // of each unit, by its first rank
  std::vector<std::vector<std::unique_ptr<LevelSteps>>> lists_;  // [level]
  std::vector<Finish> finishes_;                                 // [level]: where its members store everything
};

// A share of the message that goes by paths of one kind where ranks have them, and directly elsewhere. It goes through
// all levels in queues of its own, so that no path waits for another before the end.
struct ComposedShare {
  ComposedShare(PlanBuilder& builder, const AlgorithmArguments& arguments, Detour detour, int most_queues)
      : carrier(builder, arguments.node_of, std::move(detour)) {
    for (int i = 0; i < most_queues; ++i) queues.push_back(add_queues(builder, arguments));
  }

  Carrier carrier;
  std::vector<std::vector<QueueId>> queues;  // [part modulo the number of queues][rank]
};

std::vector<PathShare> shares_for(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  if (arguments.shares.empty()) return {{PathKind::kDirect, 1}};
  if (arguments.access == Access::kZeroCopy) refuse(algorithm, "has no shares of paths in a zero-copy plan");
  std::vector<PathShare> shares = checked_shares(algorithm, arguments);
  for (const PathShare& it : shares) {
    if (it.kind == PathKind::kRelay) refuse(algorithm, "relays nothing; use multi_path for that, or leave relay out");
  }
  return shares;
}

int sum_of(const std::vector<PathShare>& shares) {
  return std::accumulate(shares.begin(), shares.end(), 0, [](int sum, const PathShare& it) { return sum + it.share; });
}

// By load, data goes straight from the giver's memory. So with shares, members store.
std::vector<Level> with_stores(const Algorithm& algorithm, std::vector<Level> levels) {
  for (Level& level : levels) {
    if (level.direction == Direction::kLoad) {
      refuse(algorithm, "level '", to_text(level), "' is by load, but data goes over several paths by store");
    }
    if (find_level_algorithm(level.algorithm).direction) level.direction = Direction::kStore;
  }
  return levels;
}

void check_levels(const Algorithm& algorithm, const AlgorithmArguments& arguments, const std::vector<Level>& levels) {
  for (const Level& level : levels) {
    if (find_level_algorithm(level.algorithm).make != nullptr) continue;
    refuse(algorithm, "level '", to_text(level), "' is for a broadcast only; levels of ", name(arguments.collective),
           " are: ", level_algorithms_for(arguments.collective));
  }
}

// Levels as they are performed.
std::vector<Level> with_whole_levels(std::vector<Level> levels) {
  for (size_t i = 0; i + 1 < levels.size(); ++i) {
    if (find_level_algorithm(levels[i].algorithm).whole) levels[i].all_reduce = true;
  }
  return levels;
}

// The parts of every share, each on its way up and down.
Plan compose_parts(const Algorithm& algorithm, const AlgorithmArguments& arguments, const std::vector<Level>& levels,
                   const std::vector<std::vector<Units>>& blocks, PlanBuilder builder, int parts) {
  const std::vector<PathShare> shares = shares_for(algorithm, arguments);
  const int chunks = builder.chunk_count() / parts / sum_of(shares);  // of a part of a share of 1
  const int ways = arguments.collective == Collective::kAllReduce ? 2 : 1;
  const int most_queues = std::min({parts, kMostQueuesOfParts, ways * static_cast<int>(levels.size()) - ways + 1});
  std::deque<ComposedShare> composed;
  std::vector<std::unique_ptr<ComposedPart>> all;
  int first = 0;
  for (const PathShare& it : shares) {
    Detour detour{.kind = it.kind};
    if (it.kind == PathKind::kHost) detour.among = host_pairs(algorithm, arguments);
    ComposedShare& share = composed.emplace_back(builder, arguments, std::move(detour), most_queues);
    for (int part = 0; part < parts; ++part, first += it.share * chunks) {
      all.push_back(std::make_unique<ComposedPart>(builder, share.carrier, share.queues[part % most_queues],
                                                   ChunkRange{first, it.share * chunks}, arguments));
    }
  }
  const bool gathers = arguments.collective != Collective::kReduceScatter;
  for (size_t level = 0; level < levels.size(); ++level) {
    for (const auto& part : all) {
      part->go_up(algorithm, levels[level], blocks[level]);
      if (level + 1 == levels.size()) gathers ? part->turn() : part->store();
    }
  }
  for (size_t level = levels.size() - 1; gathers && level-- > 0;) {
    for (const auto& part : all) part->go_down(level);
  }
  return builder.finish();
}

Plan compose_all_reduce(const Algorithm& algorithm, const AlgorithmArguments& arguments,
                        const std::vector<Level>& given, int parts) {
  const std::vector<PathShare> shares = shares_for(algorithm, arguments);
  const std::vector<Level> levels = with_whole_levels(arguments.shares.empty() ? given : with_stores(algorithm, given));
  if (levels.back().all_reduce) {
    refuse(algorithm, "level '", to_text(levels.back()),
           "' is the last, which makes an all-reduce anyway; leave all_reduce out");
  }
  const auto blocks = blocks_of(algorithm, arguments, levels);
  PlanBuilder builder = start_plan(algorithm, arguments, chunks_for(levels, blocks) * parts * sum_of(shares));
  return compose_parts(algorithm, arguments, levels, blocks, std::move(builder), parts);
}

// ---- Reduce-scatter and all-gather: one way of an all-reduce, each rank's block being its share ----

Plan compose_blocks(const Algorithm& algorithm, const AlgorithmArguments& arguments, const std::vector<Level>& levels,
                    int parts) {
  const auto blocks = blocks_of(algorithm, arguments, levels);
  const std::vector<int> shares = shares_of_ranks(algorithm, arguments, levels, blocks);
  const int64_t chunks = chunks_for(levels, blocks) / arguments.ranks;  // of a block, in each part
  PlanBuilder builder = start_plan(algorithm, arguments, chunks * parts);
  builder.number_chunks(chunks_by_share(shares, static_cast<int>(chunks), parts));
  return compose_parts(algorithm, arguments, levels, blocks, std::move(builder), parts);
}

}  // namespace

Plan compose(const Algorithm& algorithm, const AlgorithmArguments& arguments, const std::vector<Level>& levels,
             int parts) {
  if (!arguments.shares.empty() && arguments.collective != Collective::kAllReduce) {
    refuse(algorithm, "has shares of paths in an all_reduce only; use multi_path for ", name(arguments.collective));
  }
  if (arguments.collective == Collective::kBroadcast) return compose_broadcast(algorithm, arguments, levels, parts);
  if (arguments.collective == Collective::kReduce) return compose_reduce(algorithm, arguments, levels, parts);
  check_levels(algorithm, arguments, levels);
  if (has_rank_blocks(arguments.collective)) return compose_blocks(algorithm, arguments, levels, parts);
  return compose_all_reduce(algorithm, arguments, levels, parts);
}

}  // namespace plait
