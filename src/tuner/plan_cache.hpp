// Plans, each made and proved once.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "plan/verifier.hpp"
#include "tuner/choice.hpp"

namespace plait {

class PlanCache {
 public:
  // The plan of a choice whose ranks, nodes and groups are those of all choices here.
  std::shared_ptr<const VerifiedPlan> get(const PlanChoice& choice) {
    auto& plan = plans_[{choice.text(), {choice.arguments.collective, choice.arguments.root, choice.arguments.engine}}];
    if (!plan) {
      const Algorithm& algorithm = find_algorithm(choice.algorithm, choice.arguments.collective);
      plan = std::make_shared<const VerifiedPlan>(verify(algorithm.make(choice.arguments)));
    }
    return plan;
  }

 private:
  struct Call {
    Collective collective;
    int root;
    Engine engine;
    auto operator<=>(const Call&) const = default;
  };
  std::map<std::pair<std::string, Call>, std::shared_ptr<const VerifiedPlan>> plans_;
};

}  // namespace plait
