// Every way in which the algorithms can be asked for a plan: for tests that want all of them, also of those to come.
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

// Whether the arguments are legal; what is not has to be said to be an invalid argument.
inline bool is_taken(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  try {
    algorithm.make(arguments);
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    return false;
  }
}

// `machine` in every direction and with any of these parts, as far as the algorithm takes them.
inline std::vector<AlgorithmArguments> forms_of(const Algorithm& algorithm, const AlgorithmArguments& machine,
                                                const std::vector<int>& parts = {1}) {
  std::vector<AlgorithmArguments> forms;
  for (const Direction direction : directions_of(algorithm, machine.collective)) {
    for (const int count : parts) {
      AlgorithmArguments form = machine;
      form.direction = direction;
      form.parts = count;
      if (is_taken(algorithm, form)) forms.push_back(form);
    }
  }
  return forms;
}

// As users write them, for machines like this: "flat(store)", "ring(parts=2)". Factors are left open, and so is one
// part.
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

// Staged plans of one node.
inline std::vector<std::string> texts_for(Collective collective, int ranks) {
  AlgorithmArguments machine;
  machine.collective = collective;
  machine.ranks = ranks;
  return texts_for(machine);
}

}  // namespace plait::test
