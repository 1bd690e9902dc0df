// Paths of groups through host memory.
#include "algorithms/steps/host_pairs.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/paths.hpp"

namespace plait {
namespace {

bool is_of_one_socket(const RankPath& it) { return it.kind == PathKind::kHost && !it.across_sockets; }

std::map<int, int> group_of_each(const AlgorithmArguments& arguments) {
  std::map<int, int> group_of;
  int group = 0;
  for (const auto& ranks : groups_or_nodes(arguments)) {
    for (const int rank : ranks) group_of[rank] = group;
    ++group;
  }
  return group_of;
}

}  // namespace

std::function<bool(int, int)> host_pairs(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  if (!arguments.paths) {
    return [groups = group_of_each(arguments)](int from, int to) { return groups.at(from) == groups.at(to); };
  }
  std::set<Hop> pairs;
  for (const RankPath& it : *arguments.paths) {
    if (is_of_one_socket(it)) pairs.emplace(it.from, it.to);
  }
  if (pairs.empty()) {
    refuse(algorithm, "no two ranks of a socket have a path through host memory apart from the direct one; leave the ",
           "share of host out");
  }
  return [pairs = std::move(pairs)](int from, int to) { return pairs.count({from, to}) > 0; };
}

std::vector<PathShare> shares_in_groups(const AlgorithmArguments& machine, int parts) {
  if (!machine.paths) return {};
  std::map<Hop, double> direct, host;  // GB/s
  for (const RankPath& it : *machine.paths) {
    if (it.kind == PathKind::kDirect) direct[{it.from, it.to}] = it.gbps;
    if (is_of_one_socket(it)) host[{it.from, it.to}] = it.gbps;
  }
  double least_direct = 0, least_host = 0;
  const auto add = [](double& least, double gbps) { least = least == 0 ? gbps : std::min(least, gbps); };
  for (const auto& ranks : groups_or_nodes(machine)) {
    const auto others = static_cast<double>(ranks.size()) - 1;
    for (size_t x = 1; x < ranks.size(); ++x) {
      for (const Hop& hop : {Hop(ranks[0], ranks[x]), Hop(ranks[x], ranks[0])}) {
        if (direct.count(hop) == 0 || host.count(hop) == 0) return {};
        // A link of their own each, but one link to the CPU for all.
        add(least_direct, direct[hop] / (machine.links.empty() ? others : 1));
        add(least_host, host[hop] / others);
      }
    }
  }
  if (least_direct == 0) return {};
  const std::vector<int> percent = shares_of({least_direct, least_host * parts / (parts + 1)});
  return {{PathKind::kDirect, percent[0]}, {PathKind::kHost, percent[1]}};
}

}  // namespace plait
