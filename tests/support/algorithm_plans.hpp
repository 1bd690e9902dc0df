// All ways to ask the algorithms for a plan, for tests that cover every algorithm, including future ones.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/spec.hpp"
#include "base/error.hpp"
#include "plan/json.hpp"

namespace plait::test {

inline std::vector<Direction> directions_of(const Algorithm& algorithm, Collective collective) {
  if (!algorithm.uses.direction || collective == Collective::kBarrier) return {Direction::kLoad};
  if (!algorithm.uses.both) return {Direction::kLoad, Direction::kStore};
  return {Direction::kLoad, Direction::kStore, Direction::kBoth};
}

// Every rank joined to every other one by a link.
inline std::vector<DeviceLink> links_of_all(int ranks) {
  std::vector<DeviceLink> links;
  for (int a = 0; a < ranks; ++a) {
    for (int b = a + 1; b < ranks; ++b) links.push_back({a, b, 25});
  }
  return links;
}

// Shares of all paths that ranks of a machine may have of which nothing is known. GPUs run no plan with host memory.
inline std::vector<PathShare> shares_of_paths(const AlgorithmArguments& machine, bool relays) {
  std::vector<PathShare> shares = {{PathKind::kDirect, 3}};
  if (machine.engine == Engine::kCpu) shares.push_back({PathKind::kHost, 2});
  if (machine.ranks > 2 && relays) shares.push_back({PathKind::kRelay, 1});
  return shares;
}

// Whether the arguments are legal. If not, the algorithm has to say that they are invalid.
inline bool is_taken(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  try {
    algorithm.make(arguments);
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    return false;
  }
}

// `machine` with every direction and each of these parts, as far as the algorithm takes them.
inline std::vector<AlgorithmArguments> forms_of(const Algorithm& algorithm, const AlgorithmArguments& machine,
                                                const std::vector<int>& parts = {1}) {
  std::vector<AlgorithmArguments> forms;
  for (const Direction direction : directions_of(algorithm, machine.collective)) {
    for (const int count : parts) {
      AlgorithmArguments form = machine;
      form.direction = direction;
      form.parts = count;
      const bool needs_shares = algorithm.name == "multi_path";
      if (!needs_shares && is_taken(algorithm, form)) forms.push_back(form);
      if (!algorithm.uses.shares || machine.paths) continue;
      form.shares = shares_of_paths(machine, needs_shares);
      if (is_taken(algorithm, form)) forms.push_back(form);
    }
  }
  return forms;
}

// Whether an algorithm needs links of their own between ranks.
inline bool needs_links(const Algorithm& algorithm) {
  AlgorithmArguments four;
  four.collective = algorithm.collectives[0];
  four.ranks = 4;
  return forms_of(algorithm, four).empty();
}

// Messages are for ranks of several nodes, and for counts that other ranks do not know.
inline bool sends_messages(const Plan& plan) {
  return std::ranges::any_of(plan.ranks, [](const RankPlan& it) { return it.messages > 0; });
}

inline bool has_host_slots(const Plan& plan) {
  return std::ranges::any_of(plan.ranks, [](const RankPlan& it) { return it.host_slots > 0; });
}

// The staged plans of every algorithm that kernels perform over ranks of one node, each once. Nothing known of links,
// and links between all ranks: algorithms write other plans then.
inline std::vector<Plan> plans_over(int ranks, const std::vector<int>& parts) {
  std::vector<Plan> plans;
  std::set<std::string> seen;
  AlgorithmArguments machine;
  machine.ranks = ranks;
  machine.engine = Engine::kSm;
  for (const bool has_links : {false, true}) {
    if (has_links) machine.links = links_of_all(ranks);
    for (const Algorithm& algorithm : algorithms()) {
      for (const Collective collective : algorithm.collectives) {
        machine.collective = collective;
        machine.root = has_root(collective) ? ranks - 1 : 0;
        for (const AlgorithmArguments& form : forms_of(algorithm, machine, parts)) {
          Plan plan = algorithm.make(form);
          if (plan.access != Access::kStaged || sends_messages(plan) || has_host_slots(plan)) continue;
          if (seen.insert(to_json(plan)).second) plans.push_back(std::move(plan));
        }
      }
    }
  }
  return plans;
}

// The same as users write them: "flat(store)", "ring(parts=2)". Factors are left out, and so are parts=1. On GPUs,
// those that kernels perform.
inline std::vector<std::string> texts_for(const AlgorithmArguments& machine, const std::vector<int>& parts = {1}) {
  std::vector<std::string> texts;
  for (const Algorithm& algorithm : algorithms()) {
    if (!serves(algorithm, machine.collective)) continue;
    for (const AlgorithmArguments& form : forms_of(algorithm, machine, parts)) {
      if (machine.engine == Engine::kSm && has_host_slots(algorithm.make(form))) continue;
      texts.push_back(to_text(spec_of(algorithm, form)));
    }
  }
  return texts;
}

// The same for staged plans of one node.
inline std::vector<std::string> texts_for(Collective collective, int ranks) {
  AlgorithmArguments machine;
  machine.collective = collective;
  machine.ranks = ranks;
  return texts_for(machine);
}

}  // namespace plait::test
