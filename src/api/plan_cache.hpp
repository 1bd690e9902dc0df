// The verified plans of a communicator, each made and proved once.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "plan/verifier.hpp"
#include "tuner/selection.hpp"

namespace plait {

// Of choices of one communicator: their ranks follow from what is in the key.
class PlanCache {
 public:
  const VerifiedPlan& get(const Choice& choice) {
    const AlgorithmArguments& arguments = choice.arguments;
    auto& plan = plans_[{choice.algorithm, arguments.collective, arguments.root, arguments.engine, arguments.factors,
                         arguments.parts, arguments.direction, arguments.reach}];
    if (!plan) plan = std::make_unique<VerifiedPlan>(verify(make_plan(choice.algorithm, arguments)));
    return *plan;
  }

 private:
  using Key = std::tuple<std::string, Collective, int, Engine, std::vector<int>, int, Direction, Reach>;
  std::map<Key, std::unique_ptr<VerifiedPlan>> plans_;
};

}  // namespace plait
