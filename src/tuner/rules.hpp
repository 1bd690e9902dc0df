// Finds the row of a measured table that holds for a call.
#pragma once

#include <vector>

#include "model/profile.hpp"
#include "tuner/choice.hpp"

namespace plait {

// A call as rows look at it.
struct RuleSubject {
  Collective collective = Collective::kAllReduce;
  int ranks = 1;
  size_t bytes = 0;
  size_t element_bytes = 4;
  Flags flags = {};
  int steps = 0;      // of the plan, where it is known
  size_t pieces = 0;  // Measure::kPieces, likewise

  size_t measured(Measure measure) const;
};

RuleSubject subject_of(const RankMachine& machine, const Query& query);

bool holds(const RuleCondition& when, const RuleSubject& subject);

// The first rule that holds; null where none does.
template <class Rule>
const Rule* first_match(const std::vector<Rule>& rules, const RuleSubject& subject) {
  for (const Rule& rule : rules) {
    if (holds(rule.when, subject)) return &rule;
  }
  return nullptr;
}

}  // namespace plait
