// Every call that the tuner decides can be launched: with 2 to 16 ranks, on every rank, at sizes that divide unevenly.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "algorithms/algorithm.hpp"
#include "base/error.hpp"
#include "runtime/cuda/kernels/prepared_launch.hpp"
#include "runtime/cuda/rank/cuda_rank.hpp"
#include "support/gpu_choice.hpp"
#include "support/seed.hpp"

namespace plait {
namespace {

constexpr int kSms = 132, kFewSms = 16;

class Calls {
 public:
  explicit Calls(int ranks) : ranks_(ranks) {
    self_.ranks = ranks;
    for (int rank = 0; rank < ranks; ++rank) {
      self_.blocks[rank] = reinterpret_cast<std::byte*>(uint64_t{1 + static_cast<unsigned>(rank)} << 40);
    }
  }

  // Prepares the call on this rank. Returns how many slices a channel has at most with LL or LL128; 0 with Simple.
  uint64_t prepare(const Call& call, int most_sms) {
    test::GpuQuery query;
    query.collective = call.collective;
    query.bytes = message_bytes(call, ranks_);
    query.ranks = ranks_;
    query.root = call.root;
    query.processors = kSms;
    query.most_sms = most_sms;
    query.host_path = true;
    query.type = call.type;
    std::unique_ptr<Tuner>& tuner = tuners_[most_sms];
    if (!tuner) tuner.reset(new Tuner(test::tuner_for(query)));
    const Choice choice = tuner->choose({query.collective, query.bytes, query.root, query.type});
    const auto whole = tuner->plan(choice.plan), ending = choice.ending ? tuner->plan(*choice.ending) : nullptr;
    const VerifiedPlan& plan = *whole;
    uint64_t most = 0;
    for (self_.rank = 0; self_.rank < ranks_; ++self_.rank) {
      const BoundPlan bound = bind(plan, call, self_.rank, CudaRank::limits(choice.launch, plan.plan()));
      const std::string what = join(to_text(call), ", rank ", self_.rank, " of ", ranks_, ", ", choice.launch_text());
      std::optional<BoundPlan> end;
      if (ending) {
        const BindLimits limits = CudaRank::limits(choice.launch, ending->plan());
        EXPECT_NO_THROW(end = bind_alike(bound, *ending, call, self_.rank, limits, {0, call.count})) << what;
        ++endings_;
      }
      EXPECT_NO_THROW(PreparedLaunch(bound, call, choice.launch, self_, 0, end ? &*end : nullptr)) << what;
      if (choice.launch.host.channels > 0) {
        EXPECT_NO_THROW(prepare_host(plan, call, choice.launch)) << what;
        ++host_path_;
      }
      const auto channels = static_cast<uint64_t>(choice.launch.channels);
      if (choice.launch.protocol != Protocol::kSimple) most = std::max(most, (bound.slices + channels - 1) / channels);
    }
    return most;
  }
  int host_path() const { return host_path_; }  // launches of a host path
  int endings() const { return endings_; }      // launches with another plan for the last slices

 private:
  // Prepares the host path, for the last part of each block.
  void prepare_host(const VerifiedPlan& plan, const Call& call, const LaunchShape& shape) const {
    const auto rest = static_cast<size_t>(static_cast<double>(call.count) * shape.host.share) + 1;
    const BlockPart part{call.count - rest, rest};
    const BoundPlan bound = bind(plan, call, self_.rank, CudaRank::host_limits(shape, plan.plan()), part);
    const HostPathLaunch host_path;
    PreparedLaunch(bound, call, {Protocol::kSimple, shape.host.channels, shape.threads}, self_, 0, nullptr, &host_path);
  }

  const int ranks_;
  DeviceRank self_;
  std::map<int, std::unique_ptr<Tuner>> tuners_;  // by the most SMs that a call may take
  int host_path_ = 0, endings_ = 0;
};

TEST(DefaultLaunches, CanBePreparedByEveryRank) {
  test::Random random(1);
  int host_path = 0, endings = 0;
  for (int ranks = 2; ranks <= kMostDeviceRanks; ++ranks) {
    Calls calls(ranks);
    calls.prepare({}, 0);  // a barrier
    for (int c = 0; c < kCollectiveCount; ++c) {
      const auto collective = static_cast<Collective>(c);
      if (collective == Collective::kBarrier) continue;
      for (const DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kInt8, DataType::kFloat64}) {
        for (size_t bytes = 64; bytes <= size_t{1} << 30; bytes *= test::kSanitized ? 32 : 2) {
          Call call{collective, type, ReduceOp::kSum, 0, 0};
          if (has_root(collective)) call.root = static_cast<int>(test::between(random, 0, ranks - 1));
          call.count = test::between(random, bytes / 2, bytes) / size_of(type);
          if (has_rank_blocks(collective)) call.count /= static_cast<size_t>(ranks);
          call.count = std::max<size_t>(call.count, 1);
          const uint64_t slices = calls.prepare(call, test::one_in(random, 4) ? kFewSms : 0);
          // A reduce may have many slices. With more than eight ranks, the memory for two steps does not always hold
          // one slice.
          if (collective != Collective::kReduce && ranks <= 8) {
            EXPECT_LE(slices, 1u) << to_text(call) << " over " << ranks;
          }
        }
      }
    }
    host_path += calls.host_path();
    endings += calls.endings();
  }
  EXPECT_GT(host_path, test::shortened(100));
  EXPECT_GT(endings, test::shortened(100));
}

}  // namespace
}  // namespace plait
