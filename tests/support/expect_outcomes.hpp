// GoogleTest's expectations about how ranks ended.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/outcome.hpp"

namespace plait::test {

inline void expect_all_well(const Outcomes& outcomes, const std::string& context = "") {
  int shown = 0;  // if many ranks fail alike, the first ones say enough
  for (size_t rank = 0; rank < outcomes.size() && shown < 3; ++rank) {
    EXPECT_TRUE(outcomes[rank].well()) << context << " rank " << rank << ": " << describe(outcomes[rank]);
    shown += outcomes[rank].well() ? 0 : 1;
  }
}

inline void expect_error(const Outcomes& outcomes, int rank, ErrorCode code, const std::vector<std::string>& parts) {
  EXPECT_EQ(objection(outcomes.at(static_cast<size_t>(rank)), code, parts), "") << "rank " << rank;
}

// The same for all ranks except `except`.
inline void expect_errors(const Outcomes& outcomes, int except, ErrorCode code, const std::vector<std::string>& parts) {
  for (int rank = 0; rank < static_cast<int>(outcomes.size()); ++rank) {
    if (rank != except) expect_error(outcomes, rank, code, parts);
  }
}

}  // namespace plait::test
