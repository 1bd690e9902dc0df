// All ways to ask the algorithms for a plan, for tests that cover every algorithm, including future ones.
#pragma once

#include <string>
#include <vector>

#include "algorithms/spec.hpp"
#include "base/error.hpp"

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

// The same as users write them: "flat(store)", "ring(parts=2)". Factors are left out, and so are parts=1.
inline std::vector<std::string> texts_for(const AlgorithmArguments& machine, const std::vector<int>& parts = {1}) {
  std::vector<std::string> texts;
  for (const Algorithm& algorithm : algorithms()) {
    if (!serves(algorithm, machine.collective)) continue;
    for (const AlgorithmArguments& form : forms_of(algorithm, machine, parts)) {
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
