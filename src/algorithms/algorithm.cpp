// The registry of algorithms.
#include "algorithms/algorithm.hpp"

#include <algorithm>
#include <string>

#include "algorithms/spec.hpp"
#include "base/edit_distance.hpp"
#include "base/error.hpp"

namespace plait {
namespace {

std::string names_for(Collective collective) {
  std::string names;
  for (const Algorithm& algorithm : algorithms()) {
    if (serves(algorithm, collective)) names += (names.empty() ? "" : ", ") + std::string(algorithm.name);
  }
  return names;
}

// "did you mean ring? ", where a name is near.
std::string guess(std::string_view written, Collective collective) {
  written = written.substr(0, 64);
  std::string_view nearest;
  for (const Algorithm& algorithm : algorithms()) {
    if (!serves(algorithm, collective) || !is_slip_for(algorithm.name, written)) continue;
    if (nearest.empty() || edit_distance(written, algorithm.name) < edit_distance(written, nearest)) {
      nearest = algorithm.name;
    }
  }
  return nearest.empty() ? "" : join("did you mean ", nearest, "? ");
}

}  // namespace

const char* name(Direction direction) {
  switch (direction) {
    case Direction::kLoad:
      return "load";
    case Direction::kStore:
      return "store";
    case Direction::kBoth:
      break;
  }
  return "both";
}

const std::vector<Algorithm>& algorithms() {
  // For good: static destructors of a program still make calls.
  static const auto& all = *new const std::vector<Algorithm>(internal::algorithm_catalog());
  return all;
}

bool serves(const Algorithm& algorithm, Collective collective) {
  const auto& collectives = algorithm.collectives;
  return std::find(collectives.begin(), collectives.end(), collective) != collectives.end();
}

const Algorithm& find_algorithm(std::string_view name, Collective collective) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.name != name) continue;
    if (serves(algorithm, collective)) return algorithm;
    fail(ErrorCode::kInvalidArgument, "algorithm ", name, " does not serve ", plait::name(collective),
         "; use one of: ", names_for(collective));
  }
  fail(ErrorCode::kInvalidArgument, "algorithm '", name, "' is not known; ", guess(name, collective), "for ",
       plait::name(collective), " use one of: ", names_for(collective));
}

Plan make_plan(std::string_view text, const AlgorithmArguments& arguments) {
  const AlgorithmSpec spec = parse_spec(text, arguments.collective);
  return find_algorithm(spec.name, arguments.collective).make(apply(spec, arguments));
}

}  // namespace plait
