// Every call that is left to the library can be launched: over 2 to 16 ranks, by every rank, at sizes that divide
// unevenly.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>

#include "algorithms/algorithm.hpp"
#include "runtime/cuda/cuda_rank.hpp"
#include "runtime/cuda/prepared_launch.hpp"
#include "support/seed.hpp"
#include "tuner/selection.hpp"

namespace plait {
namespace {

constexpr int kProcessors = 132;

class Calls {
 public:
  explicit Calls(int ranks) : ranks_(ranks) {
    self_.ranks = ranks;
    for (int rank = 0; rank < ranks; ++rank) {
      self_.blocks[rank] = reinterpret_cast<std::byte*>(uint64_t{1 + static_cast<unsigned>(rank)} << 40);
    }
  }

  // Of how many slices a strand, at most, where flags are inside the data; 0 with signals.
  uint64_t prepare(const Call& call) {
    SelectionQuery query;
    query.collective = call.collective;
    query.bytes = message_bytes(call, ranks_);
    query.ranks = ranks_;
    query.root = call.root;
    query.processors = kProcessors;
    query.ranks_per_device = 1;
    query.lines = true;
    query.element_bytes = size_of(call.type);
    query.wide_partials = accumulates_in_float32(call.type);
    const CudaChoice choice = select_for_cuda(query, {}, {});
    const VerifiedPlan plan = verify(make_plan(choice.plan.algorithm, choice.plan.arguments));
    uint64_t most = 0;
    for (self_.rank = 0; self_.rank < ranks_; ++self_.rank) {
      const BoundPlan bound = bind(plan, call, self_.rank, CudaRank::limits(choice.launch, plan.plan()));
      EXPECT_NO_THROW(PreparedLaunch(bound, call, choice.launch, self_, 0))
          << to_text(call) << ", rank " << self_.rank << " of " << ranks_ << ", " << to_text(choice.launch);
      const auto strands = static_cast<uint64_t>(choice.launch.strands);
      if (choice.launch.protocol != Protocol::kSignals) most = std::max(most, (bound.slices + strands - 1) / strands);
    }
    return most;
  }

 private:
  const int ranks_;
  DeviceRank self_;
};

TEST(DefaultLaunches, CanBePreparedByEveryRank) {
  test::Random random(1);
  for (int ranks = 2; ranks <= kMostDeviceRanks; ++ranks) {
    Calls calls(ranks);
    for (int c = 0; c < kCollectiveCount; ++c) {
      const auto collective = static_cast<Collective>(c);
      for (size_t bytes = 64; bytes <= size_t{4} << 20; bytes *= 2) {
        Call call{collective, DataType::kFloat32, ReduceOp::kSum, 0, 0};
        if (collective == Collective::kBarrier) {
          call = Call{};
        } else {
          if (has_root(collective)) call.root = static_cast<int>(test::between(random, 0, ranks - 1));
          call.count = test::between(random, bytes / 2, bytes) / sizeof(float);
          if (has_rank_blocks(collective)) call.count /= static_cast<size_t>(ranks);
        }
        const uint64_t slices = calls.prepare(call);
        // A reduction may have many. With more ranks than eight, memory of two steps does not always suffice for one.
        if (collective != Collective::kReduce && ranks <= 8) {
          EXPECT_LE(slices, 1u) << to_text(call) << " over " << ranks;
        }
        if (collective == Collective::kBarrier) break;
      }
    }
  }
}

}  // namespace
}  // namespace plait
