// Plans for tests of kernels.
#pragma once

#include <string>

#include "algorithms/algorithm.hpp"
#include "plan/verifier.hpp"

namespace plait::test {

inline VerifiedPlan plan_of(const std::string& algorithm, Collective collective, int ranks, int parts = 1,
                            int root = 0) {
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = ranks;
  arguments.root = root;
  arguments.parts = parts;
  arguments.engine = Engine::kSm;
  return verify(make_plan(algorithm, arguments));
}

}  // namespace plait::test
