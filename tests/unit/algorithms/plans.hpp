// Helpers with which the tests of the algorithms inspect plans.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "base/error.hpp"
#include "plan/verifier.hpp"

namespace plait::test {

inline VerifiedPlan verified(std::string_view algorithm, const AlgorithmArguments& arguments) {
  return verify(make_plan(algorithm, arguments));
}

// Returns all operations of one kind of one rank, queue by queue.
inline std::vector<Operation> operations(const Plan& plan, int rank, OpKind kind) {
  std::vector<Operation> found;
  for (const Queue& queue : plan.ranks.at(rank).queues) {
    for (const Operation& operation : queue.operations) {
      if (operation.kind == kind) found.push_back(operation);
    }
  }
  return found;
}

inline int count(const Plan& plan, OpKind kind) {
  int found = 0;
  for (int rank = 0; rank < plan.rank_count(); ++rank) found += static_cast<int>(operations(plan, rank, kind).size());
  return found;
}

inline int64_t traffic_between(const PlanReport& report, Endpoint from, Endpoint to) {
  for (const Traffic& traffic : report.traffic) {
    if (traffic.from == from && traffic.to == to) return traffic.chunks;
  }
  return 0;
}

// Calls a function and expects kInvalidArgument with `part` in its message.
template <class Call>
void expect_invalid(const Call& call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "no error, but one with '" << part << "' was due";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

}  // namespace plait::test
