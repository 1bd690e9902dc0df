// Tests that a failure of one rank is one of all ranks, with the reason of the lowest rank that failed.
#include "runtime/collective_step.hpp"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "support/seed.hpp"

namespace plait {
namespace {

void throw_kind(int kind) {
  switch (kind) {
    case 0:
      return;
    case 1:
      fail(ErrorCode::kMismatch, "the sizes differ");
    case 2:
      throw std::bad_alloc();
    default:
      throw std::runtime_error("the system is busy");
  }
}

TEST(CollectiveStep, KeepsCodeAndReason) {
  const struct {
    int kind;
    ErrorCode code;
    const char* reason;
  } cases[] = {{1, ErrorCode::kMismatch, "rank 3: the sizes differ"},
               {2, ErrorCode::kResources, "rank 3: no memory is left"},
               {3, ErrorCode::kResources, "rank 3: the system is busy"}};
  for (const auto& expected : cases) {
    StepResult result;
    EXPECT_NE(try_step(result, "rank 3", [&] { throw_kind(expected.kind); }), nullptr);
    ASSERT_TRUE(result.has_failed());
    EXPECT_EQ(static_cast<ErrorCode>(result.failure), expected.code);
    EXPECT_STREQ(result.reason, expected.reason);
  }
  StepResult result;
  EXPECT_EQ(try_step(result, "rank 3", [] {}), nullptr);
  EXPECT_FALSE(result.has_failed());
  EXPECT_NO_THROW(throw_failure(result));
}

TEST(CollectiveStep, ReturnsWhatWasThrown) {
  StepResult result;
  const std::exception_ptr thrown = try_step(result, "rank 0", [] { throw std::runtime_error("odd"); });
  EXPECT_THROW(std::rethrow_exception(thrown), std::runtime_error);
}

TEST(CollectiveStep, CutsALongReason) {
  StepResult result;
  try_step(result, "rank 0", [] { fail(ErrorCode::kResources, std::string(5000, 'x')); });
  EXPECT_EQ(std::string(result.reason).size(), sizeof(result.reason) - 1);
}

TEST(CollectiveStep, AllThrowTheFailureOfTheLowestRank) {
  test::Random random(test::run_seed());
  for (int round = 0; round < 200; ++round) {
    std::vector<StepResult> results(static_cast<size_t>(test::between(random, 1, 9)));
    int lowest = -1;
    for (size_t rank = 0; rank < results.size(); ++rank) {
      const int kind = test::between(random, 0, 2) == 0 ? test::between(random, 1, 3) : 0;
      try_step(results[rank], join("rank ", rank), [&] { throw_kind(kind); });
      if (kind != 0 && lowest < 0) lowest = static_cast<int>(rank);
    }
    std::string thrown;
    try {
      throw_first_failure(results);
    } catch (const Error& error) {
      thrown = error.what();
    }
    EXPECT_EQ(thrown.substr(0, 7), lowest < 0 ? "" : join("rank ", lowest, ":").substr(0, 7));
  }
}

}  // namespace
}  // namespace plait
