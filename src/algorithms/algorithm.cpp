// The registry of algorithms.
#include "algorithms/algorithm.hpp"

#include <algorithm>
#include <string>

#include "algorithms/spec.hpp"
#include "base/error.hpp"
#include "base/names.hpp"

namespace plait {
namespace {

std::vector<std::string_view> names_for(Collective collective) {
  std::vector<std::string_view> names;
  for (const Algorithm& algorithm : algorithms()) {
    if (serves(algorithm, collective)) names.push_back(algorithm.name);
  }
  return names;
}

std::string listed(const std::vector<std::string_view>& names) {
  std::string list;
  for (const std::string_view name : names) list += join(list.empty() ? "" : ", ", name);
  return list;
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

const char* name(Order order) { return order == Order::kFarFirst ? "far_first" : "near_first"; }

const std::vector<Algorithm>& algorithms() {
  // Never destroyed: static destructors of a program still make calls.
  static const auto& all = *new const std::vector<Algorithm>(internal::algorithm_catalog());
  return all;
}

bool serves(const Algorithm& algorithm, Collective collective) {
  const auto& collectives = algorithm.collectives;
  return std::find(collectives.begin(), collectives.end(), collective) != collectives.end();
}

const Algorithm& own_block_algorithm(Collective collective) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.keeps_to_own_blocks && serves(algorithm, collective)) return algorithm;
  }
  fail(ErrorCode::kInternal, "no algorithm for ", plait::name(collective), " keeps to own blocks");
}

const Algorithm* algorithm_named(std::string_view name) {
  const auto found = std::ranges::find(algorithms(), name, &Algorithm::name);
  return found == algorithms().end() ? nullptr : &*found;
}

const Algorithm& find_algorithm(std::string_view name, Collective collective) {
  const Algorithm* found = algorithm_named(name);
  for (const Algorithm& algorithm : algorithms()) {
    if (found == nullptr && same_name(algorithm.name, name)) found = &algorithm;
  }
  if (found != nullptr) {
    if (serves(*found, collective)) return *found;
    fail(ErrorCode::kInvalidArgument, "algorithm ", found->name, " does not serve ", plait::name(collective),
         "; use one of: ", listed(names_for(collective)));
  }
  const std::vector<std::string_view> names = names_for(collective);
  fail(ErrorCode::kInvalidArgument, "algorithm '", name, "' is not known; for ", plait::name(collective),
       " use one of: ", listed(names), did_you_mean(name, names));
}

Plan make_plan(std::string_view text, const AlgorithmArguments& arguments) {
  const AlgorithmSpec spec = parse_spec(text, arguments.collective);
  return find_algorithm(spec.name, arguments.collective).make(apply(spec, arguments));
}

}  // namespace plait
