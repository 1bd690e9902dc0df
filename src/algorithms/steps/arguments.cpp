// Checks the arguments of algorithms and derives others from them.
#include "algorithms/steps/arguments.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "algorithms/spec.hpp"
#include "base/figures.hpp"
#include "plan/proof_size.hpp"

namespace plait {
namespace {

constexpr int64_t kMostChunks = 1 << 20;
// The limit exists because the verifier follows every chunk on every rank.
constexpr int64_t kMostChunksOfAllRanks = 1 << 23;

void check_engine(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  const Engine engine = arguments.engine;
  if (engine == Engine::kSm || engine == Engine::kCpu) return;
  if (engine == Engine::kCopy && takes_copy_engines(algorithm, arguments)) return;
  refuse(algorithm, "queues of engine ", name(engine), " cannot perform this plan; use ", name(Engine::kSm), " or ",
         name(Engine::kCpu), algorithm.uses.engine ? ", or copy for zero-copy plans by load" : "");
}

// An argument that the algorithm does not use is a mistake.
void check_uses(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  const Uses uses = arguments.collective == Collective::kBarrier ? Uses{} : algorithm.uses;
  const std::string_view why = arguments.collective == Collective::kBarrier ? ", since a barrier moves nothing" : "";
  if (arguments.parts < 1) refuse(algorithm, "parts is ", arguments.parts, "; it must be at least 1");
  if (arguments.parts != 1 && !uses.parts) {
    refuse(algorithm, "has no parts", why, ", and ", arguments.parts, " are asked for; leave them at 1");
  }
  if (arguments.direction != Direction::kLoad &&
      !(uses.direction && (arguments.direction != Direction::kBoth || uses.both))) {
    refuse(algorithm, "has no direction ", name(arguments.direction), why, "; leave it out",
           uses.direction ? ", or take load or store" : "");
  }
  if (arguments.count < 0) refuse(algorithm, "count is ", arguments.count, "; it must be at least 1, or left out");
  if (arguments.count != 0 && !uses.count) refuse(algorithm, "has no count", why, "; leave it out");
  if (!arguments.factors.empty() && !uses.factors) refuse(algorithm, "has no factors", why, "; leave them out");
  if (!arguments.levels.empty() && !uses.levels) refuse(algorithm, "has no levels", why, "; leave them out");
  if (arguments.order != Order::kFarFirst && !uses.order) {
    refuse(algorithm, "has no order ", name(arguments.order), why, "; leave it out");
  }
  if (arguments.radix != AlgorithmArguments().radix && !uses.radix) {
    refuse(algorithm, "has no radix", why, ", and ", arguments.radix, " is asked for; leave it out");
  }
  if (!arguments.shares.empty() && !uses.shares) refuse(algorithm, "has no shares of paths", why, "; leave them out");
  if (arguments.access == Access::kZeroCopy && !uses.zero_copy) {
    refuse(algorithm, "has no zero-copy plan", why, "; it takes access ", name(Access::kStaged));
  }
}

void check_groups(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  std::vector<int> times_named(arguments.ranks, 0);
  for (const auto& group : arguments.groups) {
    if (group.empty()) refuse(algorithm, "a group is empty; every group needs at least one rank");
    for (const int rank : group) {
      if (rank < 0 || rank >= arguments.ranks) {
        refuse(algorithm, "rank ", rank, " of a group does not exist; ranks are 0..", arguments.ranks - 1);
      }
      ++times_named[rank];
    }
  }
  for (int rank = 0; rank < arguments.ranks; ++rank) {
    if (times_named[rank] == 1) continue;
    refuse(algorithm, "rank ", rank, " is in ", counted(times_named[rank], "group"),
           "; every rank has to be in exactly one");
  }
}

void check_links(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  std::pair<int, int> last = {-1, -1};
  for (const DeviceLink& it : arguments.links) {
    const bool is_pair = 0 <= it.a && it.a < it.b && it.b < arguments.ranks;
    if (!is_pair || !(it.gbps > 0) || std::isinf(it.gbps) || std::pair(it.a, it.b) <= last) {
      refuse(algorithm, "the link of ranks ", it.a, " and ", it.b, " with ", it.gbps,
             " GB/s is not as it should be; links join two of the ranks 0..", arguments.ranks - 1,
             ", the lower one first, with some bandwidth, each pair once and in order");
    }
    last = {it.a, it.b};
  }
}

void check_paths(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  const auto is_rank = [&](int rank) { return 0 <= rank && rank < arguments.ranks; };
  if (!arguments.paths) return;
  for (const RankPath& it : *arguments.paths) {
    const bool relays = it.kind == PathKind::kRelay;
    const bool is_pair = is_rank(it.from) && is_rank(it.to) && it.from != it.to && it.kind != PathKind::kNet;
    const bool is_by_third = is_rank(it.via) && it.via != it.from && it.via != it.to;
    if (is_pair && is_by_third == relays && it.ring_gbps > 0 && it.ring_gbps <= it.gbps && !std::isinf(it.gbps))
      continue;
    refuse(algorithm, "the ", name(it.kind), " path from rank ", it.from, " to rank ", it.to, " by rank ", it.via,
           " with ", it.gbps, " GB/s, ", it.ring_gbps,
           " in a ring, is not as it should be; paths join two of the ranks 0..", arguments.ranks - 1,
           " with some bandwidth, a relay by a third one");
  }
}

}  // namespace

void check_arguments(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  if (!serves(algorithm, arguments.collective)) {
    std::string known;
    for (const Collective collective : algorithm.collectives)
      known += join(known.empty() ? "" : ", ", name(collective));
    refuse(algorithm, "does not serve ", name(arguments.collective), ", only ", known);
  }
  if (arguments.ranks < 1) refuse(algorithm, "needs at least one rank, not ", arguments.ranks);
  if (has_root(arguments.collective) && (arguments.root < 0 || arguments.root >= arguments.ranks)) {
    refuse(algorithm, "root ", arguments.root, " does not exist; ranks are 0..", arguments.ranks - 1);
  }
  check_uses(algorithm, arguments);
  check_engine(algorithm, arguments);
  if (!arguments.node_of.empty() && static_cast<int>(arguments.node_of.size()) != arguments.ranks) {
    refuse(algorithm, "node_of names the node of ", counted(arguments.node_of.size(), "rank"),
           "; give one for each of the ", counted(arguments.ranks, "rank"), ", or none");
  }
  if (!arguments.groups.empty()) check_groups(algorithm, arguments);
  check_links(algorithm, arguments);
  check_paths(algorithm, arguments);
}

bool on_one_node(const AlgorithmArguments& arguments) {
  const auto& nodes = arguments.node_of;
  return std::all_of(nodes.begin(), nodes.end(), [&](int node) { return node == nodes[0]; });
}

void check_one_node(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  if (on_one_node(arguments)) return;
  AlgorithmArguments machine = arguments;
  machine.access = Access::kStaged;
  std::string others;
  for (const Algorithm& other : algorithms()) {
    if (!serves(other, machine.collective) || other.candidates(machine).empty()) continue;
    others += join(others.empty() ? "" : ", ", other.name);
  }
  int rank = 1;
  while (node_of(arguments, rank) == node_of(arguments, 0)) ++rank;
  refuse(algorithm, "ranks 0 and ", rank, " are on different nodes, but ranks have to access each other's memory; for ",
         "several nodes use one of: ", others);
}

void check_queue_a_step(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  const bool by_store = arguments.direction == Direction::kStore;
  if (arguments.parts == 1 || (by_store && arguments.parts == 2)) return;
  if (!by_store) refuse(algorithm, "has no parts by load, and ", arguments.parts, " are asked for");
  refuse(algorithm, "by store it takes parts 1, which is one queue a rank, or 2, a queue for each step, not ",
         arguments.parts);
}

bool takes_copy_engines(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  return algorithm.uses.engine && arguments.access == Access::kZeroCopy && arguments.direction == Direction::kLoad;
}

PlanBuilder start_plan(const Algorithm& algorithm, const AlgorithmArguments& arguments, int64_t chunks_per_block) {
  const std::string label = to_text(spec_of(algorithm, arguments));
  // The blocks that the buffers of a rank hold.
  const int64_t blocks = arguments.collective == Collective::kAllToAll
                             ? arguments.ranks
                             : std::max<int64_t>(1, block_count(arguments.collective, arguments.ranks));
  if (chunks_per_block > kMostChunks / blocks) {
    throw PlanTooLarge(ErrorCode::kInvalidArgument, join("plan ", label, " would cut the message into more than ",
                                                         kMostChunks, " chunks; use fewer parts"));
  }
  const int64_t chunks = blocks * chunks_per_block;
  if (arguments.fold == nullptr && chunks > kMostChunksOfAllRanks / arguments.ranks) {
    throw PlanTooLarge(ErrorCode::kInvalidArgument,
                       join("plan ", label, " would have ", counted(arguments.ranks, "rank"), " x ",
                            counted(chunks, "chunk"), " to prove; the limit is ", kMostChunksOfAllRanks,
                            ". Use fewer ranks", arguments.parts > 1 ? " or parts" : ""));
  }
  return PlanBuilder({label, arguments.collective, arguments.ranks, arguments.root, static_cast<int>(chunks_per_block),
                      arguments.access, arguments.node_of, arguments.most_operations, arguments.fold});
}

std::vector<QueueId> add_queues(PlanBuilder& builder, const AlgorithmArguments& arguments) {
  std::vector<QueueId> queues;
  for (int rank = 0; rank < arguments.ranks; ++rank) queues.push_back(builder.add_queue(rank, arguments.engine));
  return queues;
}

std::vector<AlgorithmArguments> with_parts(const AlgorithmArguments& machine, const std::vector<int>& parts) {
  std::vector<AlgorithmArguments> candidates;
  for (const int count : parts) {
    AlgorithmArguments& candidate = candidates.emplace_back(machine);
    candidate.parts = count;
    if (candidate.engine == Engine::kCopy) candidate.engine = Engine::kSm;
  }
  return candidates;
}

std::vector<AlgorithmArguments> in_both_directions(const std::vector<AlgorithmArguments>& some) {
  std::vector<AlgorithmArguments> all;
  for (const bool second : {false, true}) {
    for (AlgorithmArguments it : some) {
      it.direction = on_gpus(it) != second ? Direction::kStore : Direction::kLoad;
      all.push_back(std::move(it));
    }
  }
  return all;
}

bool on_gpus(const AlgorithmArguments& machine) { return machine.engine != Engine::kCpu; }

bool links_join_all(const AlgorithmArguments& arguments) {
  if (arguments.ranks > kMostLinkedRanks) return false;
  std::vector<bool> is_joined(arguments.ranks);
  is_joined[0] = true;
  for (int round = 1; round < arguments.ranks; ++round) {
    for (const DeviceLink& it : arguments.links) {
      if (is_joined[it.a] || is_joined[it.b]) is_joined[it.a] = is_joined[it.b] = true;
    }
  }
  return std::all_of(is_joined.begin(), is_joined.end(), [](bool it) { return it; });
}

void check_links_join_all(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  if (links_join_all(arguments)) return;
  if (arguments.ranks > kMostLinkedRanks) {
    refuse(algorithm, "searches the links of at most ", kMostLinkedRanks, " ranks, not ", arguments.ranks,
           "; use ring or double_binary_tree");
  }
  refuse(algorithm, "needs links of their own between the devices of its ranks, which lead from each to all others (",
         arguments.links.size(), " are known here); a switch gives none. Use ring or double_binary_tree");
}

int node_of(const AlgorithmArguments& arguments, int rank) {
  return arguments.node_of.empty() ? 0 : arguments.node_of[rank];
}

std::vector<std::vector<int>> groups_or_nodes(const AlgorithmArguments& arguments) {
  if (!arguments.groups.empty()) return arguments.groups;
  std::map<int, std::vector<int>> ranks_of_node;
  for (int rank = 0; rank < arguments.ranks; ++rank) ranks_of_node[node_of(arguments, rank)].push_back(rank);
  std::vector<std::vector<int>> groups;
  for (auto& [node, ranks] : ranks_of_node) groups.push_back(std::move(ranks));
  return groups;
}

}  // namespace plait
