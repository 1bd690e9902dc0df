// The registry of algorithms.
#include "algorithms/algorithm.hpp"

#include <algorithm>

#include "algorithms/catalog.hpp"
#include "base/error.hpp"

namespace plait {
namespace {

bool serves(const Algorithm& algorithm, Collective collective) {
  const auto& collectives = algorithm.collectives;
  return std::find(collectives.begin(), collectives.end(), collective) != collectives.end();
}

std::string names_for(Collective collective) {
  std::string names;
  for (const Algorithm& algorithm : algorithms()) {
    if (serves(algorithm, collective)) names += (names.empty() ? "" : ", ") + std::string(algorithm.name);
  }
  return names;
}

}  // namespace

const std::vector<Algorithm>& algorithms() {
  static const auto& all = *new const std::vector<Algorithm>{
      binomial(), chain(),         chain_push(), flat(), hierarchical_ring(), nvgroup_ring(),
      one_shot(), one_shot_push(), pull(),       push(), push_pull(),         recursive_doubling(),
      ring(),     three_stage()};  // for good: static destructors of a program still make calls
  return all;
}

const Algorithm& find_algorithm(std::string_view name, Collective collective) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.name != name) continue;
    if (serves(algorithm, collective)) return algorithm;
    fail(ErrorCode::kInvalidArgument, "algorithm ", name, " does not serve ", plait::name(collective),
         "; use one of: ", names_for(collective));
  }
  fail(ErrorCode::kInvalidArgument, "algorithm '", name, "' is not known; for ", plait::name(collective),
       " use one of: ", names_for(collective));
}

AlgorithmArguments fitted(const Algorithm& algorithm, AlgorithmArguments arguments) {
  if (arguments.engine == Engine::kSm || arguments.engine == Engine::kCopy) {
    arguments.engine = algorithm.only_copies ? Engine::kCopy : Engine::kSm;
  }
  return arguments;
}

Plan make_plan(std::string_view name, const AlgorithmArguments& arguments) {
  return find_algorithm(name, arguments.collective).make(arguments);
}

}  // namespace plait
