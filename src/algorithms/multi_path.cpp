// Multi-path: every message in shares, over the direct link, through host memory and by way of other GPUs (TEM-03..10).
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/carrier.hpp"
#include "algorithms/steps/paths.hpp"
#include "algorithms/steps/ring.hpp"
#include "algorithms/steps/ways.hpp"

namespace plait {

Algorithm multi_path();

namespace {

// Between two GPUs there is more than their link: each has one to its CPU, which idles. So a message is divided, and
// its shares travel at once. multi_path(direct: 70, host: 20, relay: 10), from r0 to r1:
//
//     r0 ------------ 70% ------------> r1     direct: stored in scratch of r1
//     r0 -- 20% --> host memory ------> r1     host: r0 stores next to itself, and r1 reads there (TEM-05)
//     r0 -- 10% --> r2 ---------------> r1     relay: r2 stores on what r0 stores in its scratch
//
// The collective says what a message is. Each share goes through all of it by its path, in queues of its own, so that
// no path waits for another before the end (TEM-06):
//
//   broadcast, reduce                         a chain of all ranks, from the root or to it
//   scatter, gather                           the root and each other rank
//   all_gather, reduce_scatter, all_reduce    the ring of all ranks
//
// Steps: as `chain` and `ring`, and one between the root and another rank. A relay doubles them.
// Bytes: as `chain` and `ring`, and once more what goes by way of another rank.
// Scratch: as `chain` and `ring`; what goes through the host lies there. Relays hold all that they pass on.
// When: large messages where the paths of all hops are apart: two GPUs on NVLink, whose CPU is joined as well.
// parts: of each share, so that one is stored in host memory while the one before it is read there (TEM-07, TEM-08).
// shares: by default all paths end together: in proportion to bandwidth, less what a path needs to fill (TEM-09). That
//   is the closed form of two paths (model/closed_forms/temucin.hpp) for long messages. Where paths are not known, a
//   quarter goes through the host.
//
// Another way is to let each step of a collective wait for all shares of its message, as UCX does below MPI. Then the
// slowest path holds up the others in every step, and each step begins with an empty pipeline.

bool goes_round(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kAllGather ||
         collective == Collective::kReduceScatter;
}

bool is_star(Collective collective) { return collective == Collective::kScatter || collective == Collective::kGather; }

// The ranks of the chain, in the direction of the data.
std::vector<int> chain_of(const AlgorithmArguments& arguments) {
  std::vector<int> chain;
  for (int d = 0; d < arguments.ranks; ++d) chain.push_back((arguments.root + d) % arguments.ranks);
  if (arguments.collective == Collective::kReduce) std::reverse(chain.begin(), chain.end());
  return chain;
}

std::vector<Hop> hops_of(const AlgorithmArguments& arguments) {
  std::vector<Hop> hops;
  const int ranks = arguments.ranks, root = arguments.root;
  if (is_star(arguments.collective)) {
    for (int d = 1; d < ranks; ++d) {
      const int other = (root + d) % ranks;
      hops.push_back(arguments.collective == Collective::kScatter ? Hop(root, other) : Hop(other, root));
    }
    return hops;
  }
  const std::vector<int> chain = chain_of(arguments);
  for (size_t i = 1; i < chain.size(); ++i) hops.emplace_back(chain[i - 1], chain[i]);
  if (goes_round(arguments.collective) && ranks > 1) hops.emplace_back(chain.back(), chain.front());
  return hops;
}

// Whether ranks send to the next one, most of them at once.
bool is_ring(const AlgorithmArguments& arguments) {
  return goes_round(arguments.collective) || (!is_star(arguments.collective) && arguments.ranks > 2);
}

// The bandwidth of a path, less the time in which its pipeline fills: a share passes in so many turns of one part, and
// `turns` of them would do without that.
double weight_of(const AlgorithmArguments& arguments, const HopPaths& paths) {
  const int k = arguments.parts, others = arguments.ranks - 1;
  const bool direct = paths.kind == PathKind::kDirect, relay = paths.kind == PathKind::kRelay;
  if (is_star(arguments.collective)) {
    // All shares through the host cross the root's link to it. Without links of their own, so do the direct ones.
    const bool crowded = direct ? arguments.links.empty() : !relay;
    return paths.gbps / (crowded ? others : 1) * k / (k + (direct ? 0 : 1));
  }
  if (goes_round(arguments.collective)) {
    const int turns = others * k * (arguments.collective == Collective::kAllReduce ? 2 : 1);
    if (relay && k == 1) return paths.gbps / 2;
    return paths.gbps * turns / (turns + (direct ? 0 : 1));
  }
  const int fill = direct ? others - 1 : relay ? 2 * others - 1 : others;
  return paths.gbps * k / (k + fill);
}

std::vector<PathShare> best_shares(const AlgorithmArguments& arguments, const std::vector<HopPaths>& paths) {
  std::vector<double> weights;
  for (const HopPaths& it : paths) weights.push_back(weight_of(arguments, it));
  const std::vector<int> percent = shares_of(weights);
  std::vector<PathShare> shares;
  for (size_t i = 0; i < paths.size(); ++i) {
    if (percent[i] > 0) shares.push_back({paths[i].kind, percent[i]});
  }
  return shares;
}

// The paths besides the direct one that take nothing from it, of all hops. The direct ones come first. Empty where
// nothing is known of the machine, or some hop has no such paths.
std::vector<HopPaths> useful_paths(const AlgorithmArguments& arguments) {
  if (!arguments.paths || arguments.ranks < 2 || !on_one_node(arguments)) return {};
  const std::vector<Hop> hops = hops_of(arguments);
  std::vector<HopPaths> useful;
  Hop missing;
  for (const PathKind kind : {PathKind::kDirect, PathKind::kHost, PathKind::kRelay}) {
    std::optional<HopPaths> found = paths_of(arguments, hops, kind, is_ring(arguments), missing);
    if (!found && kind == PathKind::kDirect) return {};
    if (found && found->apart) useful.push_back(std::move(*found));
  }
  if (useful.size() < 2) useful.clear();
  return useful;
}

// A path with its share: all that goes over it. It has queues of its own.
struct Lane {
  HopPaths paths;
  int share = 1;
  int before = 0;  // shares of the paths before it
};

class AlongPaths {
 public:
  AlongPaths(const AlgorithmArguments& arguments, std::vector<Lane> lanes)
      : arguments_(arguments),
        lanes_(std::move(lanes)),
        builder_(start_plan(multi_path(), arguments, block_chunks())) {}

  Plan make() {
    if (is_star(arguments_.collective)) {
      move_blocks();
      return builder_.finish();
    }
    for (const Lane& lane : lanes_) {
      const Detour detour{lane.paths.kind, lane.paths.via, arguments_.engine};
      Carrier& carrier = carriers_.emplace_back(builder_, arguments_.node_of, detour);
      const std::vector<QueueId> queues = add_queues(builder_, arguments_);
      if (goes_round(arguments_.collective)) {
        go_round(lane, queues, carrier);
      } else {
        go_along_chain(lane, queues, carrier);
      }
    }
    return builder_.finish();
  }

 private:
  // An all-reduce cuts each share into a piece for each rank.
  int pieces() const { return arguments_.collective == Collective::kAllReduce ? arguments_.ranks : 1; }
  int64_t block_chunks() const {
    const int64_t shares = lanes_.back().before + lanes_.back().share;
    return shares * arguments_.parts * pieces();
  }
  int first_chunk(const Lane& lane, int block) const {
    return static_cast<int>(block * block_chunks()) + lane.before * arguments_.parts * pieces();
  }

  void go_round(const Lane& lane, const std::vector<QueueId>& queues, Carrier& carrier) {
    RingSteps::Shape shape;
    shape.queues = queues;
    if (lane.paths.kind == PathKind::kHost) {
      // While one queue stores in host memory, others read there: else the first and the last step use half of a link.
      shape.last_queues = add_queues(builder_, arguments_);
      const bool has_steps_between = arguments_.ranks > 2 || (shape.scatters && shape.gathers);
      if (has_steps_between) shape.first_queues = add_queues(builder_, arguments_);
    }
    shape.first_chunk = first_chunk(lane, 0);
    shape.part_chunks = lane.share;
    shape.parts = arguments_.parts;
    shape.scatters = arguments_.collective != Collective::kAllGather;
    shape.gathers = arguments_.collective != Collective::kReduceScatter;
    for (int rank = 0; rank < arguments_.ranks && has_rank_blocks(arguments_.collective); ++rank) {
      shape.first_of_piece.push_back(first_chunk(lane, rank));
    }
    RingSteps(builder_, carrier, shape).perform(all_inputs(arguments_.ranks), to_outputs());
  }

  // Every rank passes on what came or, in a reduction, that and its own input.
  void go_along_chain(const Lane& lane, const std::vector<QueueId>& queues, Carrier& carrier) {
    const std::vector<int> chain = chain_of(arguments_);
    const bool reduces = arguments_.collective == Collective::kReduce;
    std::vector<Place> landings;  // of each hop
    for (size_t i = 1; i < chain.size(); ++i) {
      landings.push_back(carrier.take_landing(chain[i - 1], chain[i], lane.share * arguments_.parts));
    }
    for (int part = 0; part < arguments_.parts; ++part) {
      const ChunkRange range = {first_chunk(lane, 0) + part * lane.share, lane.share};
      std::optional<Arrival> arrival;
      for (size_t i = 0; i < chain.size(); ++i) {
        const int rank = chain[i];
        const bool keeps = !reduces || i + 1 == chain.size();
        std::vector<Place> sources;
        if (arrival) carrier.await(*arrival);
        if (arrival) sources.push_back(arrival->place);
        if (!arrival || reduces) sources.push_back(input_of(rank));
        const std::vector<Place> kept = keeps ? std::vector{output_of(rank)} : std::vector<Place>{};
        if (i + 1 == chain.size()) {
          builder_.reduce(queues[rank], kept, sources, range.first, range.count);
        } else {
          arrival = carrier.put(queues[rank], sources, kept, queues[chain[i + 1]],
                                slot_after(landings[i], part * lane.share), range);
        }
      }
    }
  }

  void move_blocks() {
    std::vector<Way> ways;
    for (const Lane& lane : lanes_) {
      for (const auto& [from, to] : hops_of(arguments_)) {
        const int block = arguments_.collective == Collective::kScatter ? to : from;
        const auto via = lane.paths.via.find({from, to});
        std::vector<int> ranks = {from, to};
        if (via != lane.paths.via.end()) ranks.insert(ranks.begin() + 1, via->second);
        ways.push_back({std::move(ranks), first_chunk(lane, block), lane.share, lane.paths.kind});
      }
    }
    WaySteps steps(builder_, arguments_, std::move(ways));
    const auto chunks = static_cast<int>(block_chunks());
    steps.keep(arguments_.root, arguments_.root * chunks, chunks);
    steps.move_all();
  }

  const AlgorithmArguments& arguments_;
  const std::vector<Lane> lanes_;
  PlanBuilder builder_;
  std::deque<Carrier> carriers_;
};

std::vector<Lane> lanes_of(const AlgorithmArguments& arguments) {
  const std::vector<Hop> hops = hops_of(arguments);
  std::vector<Lane> lanes;
  int before = 0;
  for (const PathShare& it : checked_shares(multi_path(), arguments)) {
    Hop missing;
    std::optional<HopPaths> paths = paths_of(arguments, hops, it.kind, is_ring(arguments), missing);
    if (!paths) {
      refuse(multi_path(), "there is no ", name(it.kind), " path from rank ", missing.first, " to rank ",
             missing.second, it.kind == PathKind::kDirect ? "" : " apart from the direct one",
             "; leave that share out, or use ranks that have it");
    }
    lanes.push_back({std::move(*paths), it.share, before});
    before += lanes.back().share;
  }
  return lanes;
}

std::vector<PathShare> shares_for(const AlgorithmArguments& arguments) {
  if (arguments.ranks == 1) return {{PathKind::kDirect, 1}};
  if (!arguments.paths && on_gpus(arguments)) {
    refuse(multi_path(), "paths between more than ", kMostLinkedRanks,
           " GPUs, or ranks that share one, are not known; ", "name shares: multi_path(direct: 80, host: 20)");
  }
  if (!arguments.paths) return {{PathKind::kDirect, 3}, {PathKind::kHost, 1}};  // TEM-09: a quarter or more on Mist
  const std::vector<HopPaths> paths = useful_paths(arguments);
  if (paths.empty()) {
    refuse(multi_path(), "there is neither a host path nor a relay apart from the direct path between all ranks that ",
           "send to each other; multi_path is for ranks that have one, such as GPUs on NVLink whose CPU is joined as "
           "well");
  }
  return best_shares(arguments, paths);
}

Plan make_multi_path(const AlgorithmArguments& given) {
  check_arguments(multi_path(), given);
  check_one_node(multi_path(), given);
  AlgorithmArguments arguments = given;
  if (arguments.shares.empty()) {
    arguments.shares = shares_for(arguments);
  }
  return AlongPaths(arguments, lanes_of(arguments)).make();
}

// The direct path with each of the others, and with all.
std::vector<std::vector<HopPaths>> choices_of(const std::vector<HopPaths>& paths) {
  std::vector<std::vector<HopPaths>> choices;
  for (size_t i = 1; i < paths.size(); ++i) choices.push_back({paths[0], paths[i]});
  if (paths.size() > 2) choices.push_back(paths);
  return choices;
}

std::vector<AlgorithmArguments> multi_path_candidates(const AlgorithmArguments& machine) {
  if (machine.access == Access::kZeroCopy) return {};
  const std::vector<HopPaths> paths = useful_paths(machine);
  const std::vector<std::vector<HopPaths>> choices = choices_of(paths);
  std::vector<int> parts = choices.size() > 1 ? std::vector{4, 8, 1} : std::vector{4, 8, 2, 1};
  if (machine.parts > 1) parts = {machine.parts};  // the shares depend on it
  std::vector<AlgorithmArguments> all;
  for (const std::vector<HopPaths>& choice : choices) {
    for (AlgorithmArguments& it : with_parts(machine, parts)) {
      if (machine.shares.empty()) it.shares = best_shares(it, choice);
      const bool is_tried = !machine.shares.empty() || is_worth_it(it.shares);
      if (is_tried && std::find(all.begin(), all.end(), it) == all.end()) all.push_back(std::move(it));
    }
  }
  return all;
}

}  // namespace

Algorithm multi_path() {
  return {.name = "multi_path",
          .summary = "every message in shares, over the direct link, through host memory and by way of other GPUs",
          .source = "TEM-03..10, TEM-54",
          .collectives = {Collective::kBroadcast, Collective::kReduce, Collective::kScatter, Collective::kGather,
                          Collective::kAllGather, Collective::kReduceScatter, Collective::kAllReduce},
          .uses = {.parts = true, .shares = true, .relays = true},
          .make = make_multi_path,
          .candidates = multi_path_candidates};
}

}  // namespace plait
