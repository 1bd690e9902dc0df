// Plans of two ranks for tests of the verifier, and what it has to say of a wrong one.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "plan/builder.hpp"
#include "plan/verifier.hpp"

namespace plait::test {

inline void expect_refused(Plan plan, const std::vector<std::string>& words) {
  try {
    verify(std::move(plan));
    FAIL() << "accepted, although: " << words.at(0);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
    for (const std::string& word : words) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what() << "\nlacks: " << word;
    }
  }
}

inline Operation& operation(Plan& plan, int rank, int lane, int index) {
  return plan.ranks[rank].lanes[lane].operations[index];
}

// Two ranks in peer reach; the body fills the lanes.
inline Plan two_ranks(Collective collective, const std::function<void(PlanBuilder&, LaneId, LaneId)>& body,
                      int chunks = 1, Reach reach = Reach::kPeer) {
  PlanBuilder b({"pair", collective, 2, 0, chunks, reach});
  const LaneId lane0 = b.add_lane(0, Engine::kCpu), lane1 = b.add_lane(1, Engine::kCpu);
  body(b, lane0, lane1);
  return b.finish();
}

// Rank 0 hands its input to rank 1 through rank 1's scratch.
inline Plan pair_broadcast(int chunks = 1) {
  return two_ranks(
      Collective::kBroadcast,
      [&](PlanBuilder& b, LaneId lane0, LaneId lane1) {
        const Place scratch = b.take_scratch(1, chunks);
        b.fold(lane0, {output_of(0), scratch}, {input_of(0)}, 0, chunks);  // rank 0, operation 0
        b.wait(b.signal(lane0, lane1));                                    // rank 0, operation 1; rank 1, operation 0
        b.copy(lane1, output_of(1), scratch, 0, chunks);                   // rank 1, operation 1
      },
      chunks, Reach::kStaged);
}

}  // namespace plait::test
