// Plans of two ranks for tests of the verifier, and the errors that it has to find.
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

inline Operation& operation(Plan& plan, int rank, int queue, int index) {
  return plan.ranks[rank].queues[queue].operations[index];
}

// Two ranks that can access each other's buffers; the body fills the queues.
inline Plan two_ranks(Collective collective, const std::function<void(PlanBuilder&, QueueId, QueueId)>& body,
                      int chunks = 1, Access access = Access::kZeroCopy) {
  PlanBuilder b({"pair", collective, 2, 0, chunks, access});
  const QueueId queue0 = b.add_queue(0, Engine::kCpu), queue1 = b.add_queue(1, Engine::kCpu);
  body(b, queue0, queue1);
  return b.finish();
}

// Rank 0 sends its input to rank 1 through rank 1's scratch.
inline Plan pair_broadcast(int chunks = 1) {
  return two_ranks(
      Collective::kBroadcast,
      [&](PlanBuilder& b, QueueId queue0, QueueId queue1) {
        const Place scratch = b.take_scratch(1, chunks);
        b.reduce(queue0, {output_of(0), scratch}, {input_of(0)}, 0, chunks);  // rank 0, operation 0
        b.wait(b.signal(queue0, queue1));                  // rank 0, operation 1; rank 1, operation 0
        b.copy(queue1, output_of(1), scratch, 0, chunks);  // rank 1, operation 1
      },
      chunks, Access::kStaged);
}

}  // namespace plait::test
