// Variations of candidates.
#include "tuner/variations.hpp"

#include "base/error.hpp"
#include "tuner/neighbours.hpp"

namespace plait {
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
  small.arguments.most_operations = kMostVariedOperations;
  try {
    found->second = candidates_of(small, machine_, limits_, routes_);
  } catch (const Error& error) {  // it is not for this machine or runtime, or too large
    if (error.code() != ErrorCode::kInvalidArgument && error.code() != ErrorCode::kInvalidPlan) throw;
  }
  return found->second;
}

}  // namespace plait
