// Plans that CPUs drive while the network takes messages straight from GPU memory: all that can be driven so, over
// random hosts. GPU memory has addresses that crash a CPU (far_memory.hpp), so none looks there.
#include <gtest/gtest.h>
#include <unistd.h>

#include <deque>
#include <map>
#include <thread>

#include "plan/through_host.hpp"
#include "plan/verifier.hpp"
#include "runtime/driven_reduces.hpp"
#include "runtime/host/host_rank.hpp"
#include "support/algorithm_plans.hpp"
#include "support/call_buffers.hpp"
#include "support/late_transport.hpp"
#include "support/outcome.hpp"
#include "support/random_calls.hpp"
#include "support/reduce_request.hpp"

namespace plait::test {
namespace {

constexpr size_t kScratchBytes = 256 << 10;
constexpr int kSignals = 512;

// A GPU that is late with what it was asked for.
class FarGpu final : public ReduceDevice {
 public:
  // `gpus`: of the ranks of its host, by rank; null: of another host.
  FarGpu(const std::vector<FarGpu*>& gpus, uint64_t seed) : gpus_(gpus), random_(seed) {
    for (auto& room : scratch_) room.resize(kScratchBytes);
  }

  std::byte* scratch(int rank, uint32_t room) const override {
    FarGpu* const its = gpus_[static_cast<size_t>(rank)];
    return its == nullptr ? nullptr : to_far(its->scratch_[room].data());
  }
  void map_host(std::shared_ptr<std::byte>, size_t) override {}
  std::byte* of_host(const std::byte* address) const override { return const_cast<std::byte*>(address); }
  bool has_room() override { return waiting_.size() < 3; }
  uint64_t post(const WorkRequest& request) override {
    waiting_.push_back(request);
    return ++posted_;
  }
  bool is_done(uint64_t number) override {
    if (!waiting_.empty() && one_in(random_, 2)) {
      WorkRequest request = waiting_.front();
      for (std::byte*& it : request.places) it = from_far(it);
      reduce_request(request);
      waiting_.pop_front();
    }
    return number <= posted_ - waiting_.size();
  }
  const void* multiply(const Scalar&, const void* input, void*, size_t) override { return input; }
  const void* copy(const void* input, size_t) override { return input; }
  void use(const std::function<void()>& work) const override { work(); }
  void finish() override {}
  void give_up() noexcept override {}
  int ordinal() const override { return 0; }
  size_t device_bytes() const override { return 0; }
  uint64_t requests() const override { return posted_; }

 private:
  const std::vector<FarGpu*>& gpus_;
  Random random_;
  std::vector<std::byte> scratch_[2];
  std::deque<WorkRequest> waiting_;
  uint64_t posted_ = 0;
};

// Ranks as threads; those of one node share a segment, and reach each other's GPUs.
class World {
 public:
  World(const std::vector<int>& node_of, Random& random)
      : network_(static_cast<int>(node_of.size()), random()), near_(node_of.size()) {
    const auto ranks = static_cast<int>(node_of.size());
    std::vector<std::string> addresses;
    for (int rank = 0; rank < ranks; ++rank) addresses.push_back(std::to_string(rank));
    HostRank::Options options;
    options.waits.timeout_seconds = 20;
    options.wait_policy = WaitPolicy::kYield;
    std::map<int, std::shared_ptr<Segment>> segments;
    for (int rank = 0; rank < ranks; ++rank) {
      auto& segment = segments[node_of[static_cast<size_t>(rank)]];
      if (!segment) segment = std::make_shared<Segment>(SegmentShape{ranks, kScratchBytes, kSignals});
      auto others = std::make_unique<OtherNodes>(network_.end(rank), rank, addresses, node_of, true);
      ranks_.push_back(std::make_unique<HostRank>(segment, rank, Peers(std::vector<int>(node_of.size(), ::getpid())),
                                                  options, std::move(others)));
      gpus_.push_back(std::make_unique<FarGpu>(near_[static_cast<size_t>(rank)], random()));
    }
    for (size_t rank = 0; rank < gpus_.size(); ++rank) {
      for (size_t peer = 0; peer < gpus_.size(); ++peer) {
        near_[rank].push_back(node_of[peer] == node_of[rank] ? gpus_[peer].get() : nullptr);
      }
    }
  }

  // Returns what went wrong.
  std::string run(const VerifiedPlan& plan, const Call& call, bool in_place) {
    std::vector<Outcome> outcomes(ranks_.size());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
      threads.emplace_back([&, rank] {
        outcomes[static_cast<size_t>(rank)] = outcome_of([&](int it) { run(plan, call, in_place, it); }, rank);
      });
    }
    for (std::thread& it : threads) it.join();
    std::string text;
    for (const Outcome& it : outcomes) text += it.well() ? "" : describe(it) + "\n";
    return text;
  }

 private:
  void run(const VerifiedPlan& plan, const Call& call, bool in_place, int rank) {
    const auto ranks = static_cast<int>(ranks_.size());
    BindLimits limits;
    limits.scratch_bytes = kScratchBytes;
    limits.signals = kSignals;
    limits.signal_stride = Segment::kSignalStride;
    limits.messages = limits.host_apart = true;
    const BoundPlan bound = bind(plan, call, rank, limits);
    CallBuffers buffers(call, ranks, rank, {in_place, 0, 0, false});
    fill_input(call, ranks, rank, 0, buffers.input());
    buffers.remember();
    ranks_[static_cast<size_t>(rank)]->run(bound, call, to_far(buffers.input()), to_far(buffers.output()),
                                           *gpus_[static_cast<size_t>(rank)]);
    buffers.require_untouched_surroundings();
    require(count_wrong(call, ranks, rank, 0, buffers.output()) == 0, "a wrong result");
  }

  LateNetwork network_;
  std::vector<std::vector<FarGpu*>> near_;
  std::vector<std::unique_ptr<FarGpu>> gpus_;
  std::vector<std::unique_ptr<HostRank>> ranks_;
};

TEST(GpuMessages, EveryPlanThatCanBeDriven) {
  Random random(run_seed());
  int straight = 0;
  for (const Algorithm& algorithm : algorithms()) {
    for (const Collective collective : algorithm.collectives) {
      if (collective == Collective::kBarrier) continue;
      const int ranks = 2 + static_cast<int>(random() % 4);
      AlgorithmArguments machine;
      machine.collective = collective;
      machine.ranks = ranks;
      machine.root = has_root(collective) ? static_cast<int>(random() % static_cast<uint64_t>(ranks)) : 0;
      for (int rank = 0; rank < ranks; ++rank) machine.node_of.push_back(rank * 2 / ranks);
      World world(machine.node_of, random);
      for (const AlgorithmArguments& form : forms_of(algorithm, machine, {1, 2})) {
        const VerifiedPlan plan = verify(algorithm.make(form));
        if (!can_be_driven(plan.plan(), true)) continue;
        straight += has_messages_in_host(plan.plan()) ? 0 : 1;
        Call call{collective, static_cast<DataType>(random() % kDataTypeCount), ReduceOp::kSum, machine.root, 0};
        if (reduces(collective)) call.op = any_of(random, reductions_of(call.type));
        call.count = 1 + random() % (one_in(random, 4) ? 200'000 : 3000);
        ASSERT_EQ(world.run(plan, call, plan.plan().in_place && one_in(random, 3)), "")
            << plan.plan().algorithm << ", " << to_text(call) << ", " << ranks << " ranks";
      }
    }
  }
  EXPECT_GT(straight, 30);
}

}  // namespace
}  // namespace plait::test
