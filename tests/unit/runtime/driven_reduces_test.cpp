// The order of work requests: a reduce waits for unfinished ones that touch what it touches, signals wait for the
// reduces before them, and actions follow from where places lie.
#include "runtime/driven_reduces.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace plait {
namespace {

constexpr int kRanks = 2;
constexpr uint32_t kScratch = kFirstScratchBase, kHost = kFirstScratchBase + kRanks + 1;
constexpr size_t kBytes = 4096;

class FakeDevice final : public ReduceDevice {
 public:
  std::byte* scratch(int, uint32_t) const override { return nullptr; }
  void map_host(std::shared_ptr<std::byte>, size_t) override {}
  std::byte* of_host(const std::byte* address) const override { return const_cast<std::byte*>(address); }
  bool has_room() override { return room; }
  uint64_t post(const WorkRequest& request) override {
    posted.push_back(request);
    return posted.size();
  }
  bool is_done(uint64_t number) override { return number <= done; }
  const void* multiply(const Scalar&, const void* input, void*, size_t) override { return input; }
  const void* copy(const void* input, size_t) override { return input; }
  void use(const std::function<void()>& work) const override { work(); }
  void finish() override {}
  void give_up() noexcept override {}
  int ordinal() const override { return 0; }
  size_t device_bytes() const override { return 0; }
  uint64_t requests() const override { return posted.size(); }

  bool room = true;
  uint64_t done = 0;
  std::vector<WorkRequest> posted;
};

class DrivenReducesTest : public ::testing::Test {
 protected:
  DrivenReducesTest() : memory_(8 * kBytes) {
    for (size_t base = 0; base < kHost + kRanks; ++base) bases_.push_back(memory_.data() + base * kBytes);
    slice_.queues.resize(2);
  }

  // A reduce of so many floats.
  BoundOperation reduce(std::vector<BoundPlace> destinations, std::vector<BoundPlace> sources, size_t elements = 16) {
    BoundOperation it;
    it.destination_count = static_cast<int>(destinations.size());
    it.source_count = static_cast<int>(sources.size());
    it.first_place = slice_.places.size();
    it.first_flag = slice_.source_is_wide.size();
    it.elements = elements;
    slice_.places.insert(slice_.places.end(), destinations.begin(), destinations.end());
    slice_.places.insert(slice_.places.end(), sources.begin(), sources.end());
    slice_.source_is_wide.resize(slice_.source_is_wide.size() + sources.size());
    return it;
  }
  DrivenReduces make() { return DrivenReduces(device_, slice_, call_, kRanks, bases_.data()); }

  std::vector<std::byte> memory_;
  std::vector<std::byte*> bases_;
  BoundSlice slice_;
  Call call_{Collective::kAllReduce, DataType::kFloat32};
  FakeDevice device_;
};

TEST_F(DrivenReducesTest, ActionsFollowFromPlaces) {
  const std::pair<BoundOperation, WorkAction> cases[] = {
      {reduce({{kScratch, 0}}, {{kInputBase, 0}, {kScratch + 1, 0}}), WorkAction::kToLocal},
      {reduce({{kHost, 0}}, {{kHost + 1, 0}, {kScratch + 1, 0}}), WorkAction::kToCpu},
      {reduce({{kOutputBase, 0}, {kScratch + 1, 512}}, {{kInputBase, 512}}), WorkAction::kToGroup},
      {reduce({{kOutputBase, 1024}}, {{kHost + 1, 1024}}), WorkAction::kGroupBroadcast},
  };
  DrivenReduces reduces = make();
  for (const auto& [operation, action] : cases) {
    EXPECT_FALSE(reduces.is_of_cpu(operation));
    device_.done = device_.posted.size();
    ASSERT_TRUE(reduces.post(operation));
    EXPECT_EQ(device_.posted.back().action, action) << name(action);
    EXPECT_EQ(device_.posted.back().elements, 16u);
  }
  EXPECT_EQ(device_.posted[1].places[0], bases_[kHost]);
  EXPECT_EQ(device_.posted[1].places[2], bases_[kScratch + 1]);
  EXPECT_TRUE(reduces.is_of_cpu(reduce({{kHost, 0}}, {{kHost + 1, 0}})));
}

TEST_F(DrivenReducesTest, AReduceWaitsForOneThatTouchesTheSame) {
  const BoundOperation first = reduce({{kScratch, 0}}, {{kInputBase, 0}});
  const BoundOperation reads = reduce({{kHost, 0}}, {{kScratch, 60}});
  const BoundOperation writes = reduce({{kInputBase, 32}}, {{kHost, 256}});
  const BoundOperation beside = reduce({{kScratch, 64}}, {{kInputBase, 0}});
  DrivenReduces reduces = make();
  ASSERT_TRUE(reduces.post(first));
  EXPECT_FALSE(reduces.post(reads));
  EXPECT_FALSE(reduces.post(writes));
  EXPECT_TRUE(reduces.post(beside));  // two may read the same
  device_.done = 1;
  EXPECT_FALSE(reduces.post(reads));  // 60 to 123 touches what `beside` writes
  device_.done = 2;
  EXPECT_TRUE(reduces.post(reads));
  device_.room = false;
  EXPECT_FALSE(reduces.post(writes));
  device_.room = true;
  EXPECT_TRUE(reduces.post(writes));
  EXPECT_EQ(device_.posted.size(), 4u);
}

TEST_F(DrivenReducesTest, SignalsAreKeptUntilTheirQueueIsDone) {
  const BoundOperation first = reduce({{kScratch, 0}}, {{kInputBase, 0}});
  BoundOperation signals[3];
  for (auto& it : signals) it.kind = OpKind::kSignal;
  std::vector<const BoundOperation*> sent;
  const auto send = [&](const BoundOperation& it) { sent.push_back(&it); };
  DrivenReduces reduces = make();
  reduces.turn_to(0);
  reduces.keep(signals[0]);  // behind no reduce
  ASSERT_TRUE(reduces.post(first));
  reduces.keep(signals[1]);
  EXPECT_FALSE(reduces.are_done());
  reduces.turn_to(1);
  reduces.keep(signals[2]);  // the other queue has no reduce
  EXPECT_TRUE(reduces.are_done());
  EXPECT_TRUE(reduces.release(send));
  EXPECT_EQ(sent, (std::vector<const BoundOperation*>{&signals[0], &signals[2]}));
  EXPECT_FALSE(reduces.release(send));
  EXPECT_FALSE(reduces.is_over());
  device_.done = 1;
  EXPECT_TRUE(reduces.release(send));
  EXPECT_EQ(sent.back(), &signals[1]);
  EXPECT_TRUE(reduces.is_over());
}

// In place, nothing is to be done.
TEST_F(DrivenReducesTest, ACopyOntoItselfIsNoRequest) {
  DrivenReduces reduces = make();
  EXPECT_TRUE(reduces.post(reduce({{kScratch, 0}}, {{kScratch, 0}})));
  EXPECT_TRUE(device_.posted.empty());
  EXPECT_TRUE(reduces.is_over());
}

}  // namespace
}  // namespace plait
