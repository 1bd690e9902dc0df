// Ranks on a CPU that perform calls by one plan each. Include this before any kernel.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "bench/exact_input.hpp"
#include "runtime/bound_plan.hpp"
#include "runtime/cuda/kernels/prepared_launch.hpp"
#include "runtime/cuda/rank/cuda_rank.hpp"
#include "support/call_buffers.hpp"
// clang-format off: ahead of all kernels
#include "support/simt_world.hpp"
// clang-format on
#include "property/cuda/kernel_bodies.hpp"

namespace plait::test {

class GivenWorld : public SimtWorld {
 public:
  using SimtWorld::SimtWorld;

  // Adds one call of all ranks. False: the plan is too long for a launch.
  bool add(const VerifiedPlan& plan, const Call& call, const LaunchShape& shape, const BindLimits& limits) {
    Made& made = calls_.emplace_back();
    made.call = call;
    made.variant = static_cast<int>(calls_.size());
    const bool in_place = plan.plan().in_place && pick(0, 1) == 0;
    try {
      for (int rank = 0; rank < ranks_; ++rank) {
        const BoundPlan bound = bind(plan, call, rank, limits);
        made.launches.push_back(std::make_unique<PreparedLaunch>(bound, call, shape, end_of(rank), 0));
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kResources) << error.what();
      calls_.pop_back();
      return false;
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      const bool has_both = has_input(call, rank) && has_output(call, rank);
      const BufferLayout layout{.in_place = in_place && has_both};
      auto buffers = std::make_unique<CallBuffers>(call, ranks_, rank, layout);
      fill_input(call, ranks_, rank, made.variant, buffers->input());
      buffers->remember();
      watch(*buffers, rank);
      const auto r = static_cast<size_t>(rank);
      const auto [kernel, argument] = made.launches[r]->launch(buffers->input(), buffers->output());
      machine_.launch(r, kernel.grid, kernel.block, body_of(call.type, kernel.function, argument), pick(0, 3) > 0);
      made.buffers.push_back(std::move(buffers));
    }
    return true;
  }

  void check() {
    for (const Made& made : calls_) {
      for (int rank = 0; rank < ranks_; ++rank) {
        CallBuffers& buffers = *made.buffers[static_cast<size_t>(rank)];
        EXPECT_EQ(count_wrong(made.call, ranks_, rank, made.variant, buffers.output()), 0u)
            << to_text(made.call) << ", rank " << rank;
        EXPECT_NO_THROW(buffers.require_untouched_surroundings()) << to_text(made.call) << ", rank " << rank;
      }
    }
    for (int rank = 0; rank < ranks_; ++rank) EXPECT_EQ(failures_of(static_cast<size_t>(rank)), 0) << rank;
  }

 private:
  struct Made {
    Call call;
    int variant = 0;
    std::vector<std::unique_ptr<CallBuffers>> buffers;
    std::vector<std::unique_ptr<PreparedLaunch>> launches;
  };
  std::deque<Made> calls_;
};

}  // namespace plait::test
