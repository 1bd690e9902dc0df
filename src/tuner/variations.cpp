// Variations of candidates.
#include "tuner/variations.hpp"

#include <utility>

#include "base/error.hpp"

namespace plait {
namespace {

constexpr int kMostParts = 32;
// Plans of more operations take longer to make, cost and prove than they are worth.
constexpr int kMostOperations = 100'000;

}  // namespace

std::vector<PlanChoice> variations_of(const PlanChoice& choice) {
  const Uses& uses = find_algorithm(choice.algorithm, choice.arguments.collective).uses;
  std::vector<PlanChoice> all;
  const int parts = choice.arguments.parts;
  for (const int it : {parts * 2, parts / 2}) {
    if (!uses.parts || it < 1 || it > kMostParts) continue;
    all.push_back(choice);
    all.back().arguments.parts = it;
  }
  if (uses.direction && choice.arguments.direction != Direction::kBoth) {
    all.push_back(choice);
    Direction& direction = all.back().arguments.direction;
    direction = direction == Direction::kLoad ? Direction::kStore : Direction::kLoad;
  }
  return all;
}

std::vector<const Candidate*> Variations::of(const Candidate& it) {
  std::vector<const Candidate*> all;
  if (it.choice.given != 0) return all;
  for (const PlanChoice& choice : variations_of(it.choice)) {
    for (const Candidate& made : candidates(choice)) {
      if (made.protocol == it.protocol) all.push_back(&made);
    }
  }
  return all;
}

const std::vector<Candidate>& Variations::candidates(const PlanChoice& choice) {
  const auto [found, is_new] = made_.try_emplace(choice.text());
  if (!is_new) return found->second;
  PlanChoice small = choice;
  small.arguments.most_operations = kMostOperations;
  try {
    found->second = candidates_of(small, machine_, limits_, routes_);
  } catch (const Error& error) {  // it is not for this machine or runtime, or too large
    if (error.code() != ErrorCode::kInvalidArgument && error.code() != ErrorCode::kInvalidPlan) throw;
  }
  return found->second;
}

}  // namespace plait
