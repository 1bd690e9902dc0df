// Checks and views of the arguments.
#include "algorithms/arguments.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "base/error.hpp"

namespace plait {
namespace {

constexpr int64_t kMostChunks = 1 << 20;
// The verifier follows every chunk on every rank.
constexpr int64_t kMostChunksOfAllRanks = 1 << 23;

template <class... Parts>
[[noreturn]] void refuse(const Algorithm& algorithm, const Parts&... parts) {
  fail(ErrorCode::kInvalidArgument, "algorithm ", algorithm.name, ": ", parts...);
}

void check_engine(const Algorithm& algorithm, Engine engine) {
  const bool only_copies = algorithm.only_copies;
  if (engine == Engine::kSm || engine == Engine::kCpu || (only_copies && engine == Engine::kCopy)) return;
  refuse(algorithm, "lanes of engine ", name(engine), only_copies ? " cannot copy" : " cannot combine and share",
         "; use ", only_copies ? join(name(Engine::kCopy), ", ") : "", name(Engine::kSm), " or ", name(Engine::kCpu));
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
    refuse(algorithm, "rank ", rank, " is in ", times_named[rank], " groups; every rank has to be in exactly one");
  }
}

}  // namespace

void check_arguments(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  const auto& collectives = algorithm.collectives;
  if (std::find(collectives.begin(), collectives.end(), arguments.collective) == collectives.end()) {
    std::string known;
    for (const Collective collective : collectives)
      known += (known.empty() ? "" : ", ") + std::string(name(collective));
    refuse(algorithm, "does not serve ", name(arguments.collective), ", only ", known);
  }
  if (arguments.ranks < 1) refuse(algorithm, "needs at least one rank, not ", arguments.ranks);
  if (has_root(arguments.collective) && (arguments.root < 0 || arguments.root >= arguments.ranks)) {
    refuse(algorithm, "root ", arguments.root, " does not exist; ranks are 0..", arguments.ranks - 1);
  }
  check_engine(algorithm, arguments.engine);
  if (!arguments.node_of.empty() && static_cast<int>(arguments.node_of.size()) != arguments.ranks) {
    refuse(algorithm, "node_of names the node of ", arguments.node_of.size(), " ranks; give one for each of the ",
           arguments.ranks, " ranks, or none");
  }
  if (!arguments.groups.empty()) check_groups(algorithm, arguments);
  if (arguments.pipeline < 1) refuse(algorithm, "pipeline is ", arguments.pipeline, "; it counts parts, from 1 on");
}

void check_one_node(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  const Collective collective = arguments.collective;
  const bool exchange =
      collective == Collective::kGather || collective == Collective::kScatter || collective == Collective::kAllToAll;
  const std::string advice =
      exchange ? join("no algorithm does ", name(collective), " over several nodes yet; use the ranks of one")
               : "use an algorithm for several nodes, such as ring or recursive_doubling";
  for (int rank = 1; rank < arguments.ranks; ++rank) {
    if (node_of(arguments, rank) == node_of(arguments, 0)) continue;
    refuse(algorithm, "ranks 0 and ", rank, " are on different nodes, but ranks have to reach each other's memory; ",
           advice);
  }
}

std::string label(const Algorithm& algorithm, const std::string& parameters, int pipeline) {
  std::string inside = parameters;
  if (pipeline != 1) inside += (inside.empty() ? "" : ", ") + join("pipeline ", pipeline);
  return std::string(algorithm.name) + (inside.empty() ? "" : "(" + inside + ")");
}

PlanBuilder start_plan(const AlgorithmArguments& arguments, std::string label, int64_t chunks_per_block) {
  const int64_t blocks = std::max<int64_t>(1, block_count(arguments.collective, arguments.ranks));
  if (chunks_per_block > kMostChunks / blocks) {
    fail(ErrorCode::kInvalidArgument, "plan ", label, " would cut the message into more than ", kMostChunks,
         " chunks; use a smaller pipeline");
  }
  // All that a rank's buffers hold.
  const int64_t chunks =
      blocks * chunks_per_block / (arguments.collective == Collective::kAllToAll ? arguments.ranks : 1);
  if (chunks > kMostChunksOfAllRanks / arguments.ranks) {
    fail(ErrorCode::kInvalidArgument, "plan ", label, " would have ", arguments.ranks, " ranks x ", chunks,
         " chunks to prove; the limit is ", kMostChunksOfAllRanks, ". Use fewer ranks",
         arguments.pipeline > 1 ? " or a smaller pipeline" : "");
  }
  return PlanBuilder({std::move(label), arguments.collective, arguments.ranks, arguments.root,
                      static_cast<int>(chunks_per_block), arguments.reach, arguments.node_of});
}

std::vector<LaneId> add_lanes(PlanBuilder& builder, const AlgorithmArguments& arguments) {
  std::vector<LaneId> lanes;
  for (int rank = 0; rank < arguments.ranks; ++rank) lanes.push_back(builder.add_lane(rank, arguments.engine));
  return lanes;
}

bool gives(const AlgorithmArguments& arguments, int from, int to) {
  switch (arguments.collective) {
    case Collective::kReduce:
    case Collective::kGather:
      return to == arguments.root;
    case Collective::kBroadcast:
    case Collective::kScatter:
      return from == arguments.root;
    default:  // what all ranks give to all
      return true;
  }
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
