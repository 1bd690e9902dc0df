// The kernels whose data carries flags, run on a CPU: random calls of several ranks in unlucky orders, and a rank that
// does not come.
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "runtime/cuda/cuda_rank.hpp"
#include "runtime/cuda/prepared_launch.hpp"
// clang-format off: ahead of all kernels
#include "support/simt.hpp"
// clang-format on
#include "runtime/cuda/lane_kernel.cuh"
#include "runtime/cuda/one_step_kernel.cuh"

namespace plait {
namespace {

constexpr DataType kType = DataType::kInt32;
using Element = int32_t;
using test::Simt;

// The source of the library's kernel `function`, performed with its argument.
std::function<void()> body_of(const void* function, const void* argument) {
  const auto flagged = *static_cast<const FlaggedLaunch*>(argument);
  if (function == lane_kernel(Protocol::kPackets, kType)) return [=] { run_flagged<PacketEngine<kType>>(flagged); };
  if (function == lane_kernel(Protocol::kLines, kType)) return [=] { run_flagged<LineEngine<kType>>(flagged); };
  const auto one_step = *static_cast<const OneStepLaunch*>(argument);
  if (function == one_step_packets(kType, 1)) return [=] { run_one_step<OneStepPackets<kType, 1>>(one_step); };
  if (function == one_step_packets(kType, 2)) return [=] { run_one_step<OneStepPackets<kType, 2>>(one_step); };
  if (function == one_step_packets(kType, 4)) return [=] { run_one_step<OneStepPackets<kType, 4>>(one_step); };
  if (function == one_step_lines(kType, 1)) return [=] { run_one_step<OneStepLines<kType, 1>>(one_step); };
  if (function == one_step_lines(kType, 2)) return [=] { run_one_step<OneStepLines<kType, 2>>(one_step); };
  throw std::logic_error("a kernel that this test does not know");
}

// One rank's buffers of a call: input and output may share memory, and begin anywhere.
struct Buffers {
  std::vector<Element> memory[2];
  Element* input = nullptr;
  Element* output = nullptr;
  std::vector<Element> given, expected;
};

// One call of all ranks.
struct Made {
  Call call;
  std::vector<Buffers> ranks;
  std::vector<std::unique_ptr<PreparedLaunch>> launches;
};

class World {
 public:
  World(int ranks, uint64_t seed, uint64_t wait_nanoseconds)
      : ranks_(ranks), wait_nanoseconds_(wait_nanoseconds), random_(seed), machine_(seed) {
    for (int rank = 0; rank < ranks; ++rank) {
      blocks_.push_back(std::unique_ptr<std::byte, decltype(&std::free)>(
          static_cast<std::byte*>(std::calloc(1, BlockLayout::total_bytes())), &std::free));
      states_.emplace_back(kMostStrands * kMostLanes);
      failures_.emplace_back(kMostStrands * kMostLanes);
    }
  }

  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  // A random call, on all ranks but those from `missing` on.
  void add(int missing) {
    Made& made = calls_.emplace_back();
    made.call = {static_cast<Collective>(pick(0, kCollectiveCount - 2)), kType, ReduceOp::kSum, 0, 0};
    made.call.count = static_cast<size_t>(pick(0, 1) == 0 ? pick(1, 40) : pick(1, 1500));
    if (pick(0, 3) == 0) made.call.op = ReduceOp::kMax;
    if (has_root(made.call.collective)) made.call.root = pick(0, ranks_ - 1);
    if (!reduces(made.call.collective)) made.call.op = ReduceOp::kSum;
    const bool whole = reduces(made.call.collective) || made.call.collective == Collective::kBroadcast;
    const bool one_shot = whole && made.call.collective != Collective::kReduceScatter && pick(0, 2) > 0;
    const VerifiedPlan& plan = plan_of(one_shot ? "one_shot_push" : "push", made.call);
    const LaunchShape shape{pick(0, 1) == 0 ? Protocol::kPackets : Protocol::kLines, pick(1, 3), 64 * pick(1, 2)};
    fill(made);
    for (int rank = 0; rank < missing; ++rank) add_launch(made, plan, shape, rank);
  }

  void run() { machine_.run(); }

  void check() const {
    for (const Made& made : calls_) {
      for (size_t rank = 0; rank < made.ranks.size(); ++rank) {
        const Buffers& it = made.ranks[rank];
        const std::vector<Element> got(it.output, it.output + it.expected.size());
        EXPECT_EQ(got, it.expected) << to_text(made.call) << ", rank " << rank << " of " << ranks_;
      }
    }
  }

  int failures_of(size_t rank) const {
    return static_cast<int>(std::count_if(failures_[rank].begin(), failures_[rank].end(),
                                          [](const auto& it) { return it.state != StrandFailure::kNone; }));
  }
  const std::map<const void*, int>& uses() const { return uses_; }

 private:
  const VerifiedPlan& plan_of(const std::string& algorithm, const Call& call) {
    const auto key = std::tuple(algorithm, call.collective, call.root);
    if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
    AlgorithmArguments arguments;
    arguments.collective = call.collective;
    arguments.ranks = ranks_;
    arguments.root = call.root;
    arguments.engine = Engine::kSm;
    return plans_.emplace(key, verify(make_plan(algorithm, arguments))).first->second;
  }

  // Ranks of one call whose buffers begin differently use different kernels.
  void fill(Made& made) {
    made.ranks = std::vector<Buffers>(static_cast<size_t>(ranks_));
    const bool in_place = pick(0, 2) == 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      Buffers& it = made.ranks[static_cast<size_t>(rank)];
      it.given.resize(input_elements(made.call, ranks_, rank));
      for (Element& element : it.given) element = pick(-1000, 1000);
      const size_t gets = output_elements(made.call, ranks_, rank);
      for (std::vector<Element>& memory : it.memory) memory.resize(std::max(it.given.size(), gets) + 1);
      it.input = it.memory[0].data() + pick(0, 1);
      it.output = it.memory[1].data() + pick(0, 1);
      if (in_place && !it.given.empty() && gets > 0) {
        const size_t own = static_cast<size_t>(rank) * made.call.count;
        it.output = it.input + (scatters(made.call.collective) ? own : 0);
        it.input += gathers(made.call.collective) ? own : 0;
      }
      std::copy(it.given.begin(), it.given.end(), it.input);
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      made.ranks[static_cast<size_t>(rank)].expected = expected_of(made, rank);
    }
  }

  Element given(const Made& made, int rank, size_t i) const { return made.ranks[static_cast<size_t>(rank)].given[i]; }

  std::vector<Element> expected_of(const Made& made, int rank) const {
    const Call& call = made.call;
    std::vector<Element> result(output_elements(call, ranks_, rank));
    for (size_t i = 0; i < result.size(); ++i) {
      const auto from = static_cast<int>(i / call.count);  // where there is a block from each rank
      const size_t own = static_cast<size_t>(rank) * call.count;
      switch (call.collective) {
        case Collective::kAllReduce:
        case Collective::kReduce:
        case Collective::kReduceScatter: {
          const size_t at = call.collective == Collective::kReduceScatter ? own + i : i;
          result[i] = given(made, 0, at);
          for (int r = 1; r < ranks_; ++r) {
            const Element next = given(made, r, at);
            result[i] = call.op == ReduceOp::kSum ? result[i] + next : std::max(result[i], next);
          }
          break;
        }
        case Collective::kBroadcast:
          result[i] = given(made, call.root, i);
          break;
        case Collective::kScatter:
          result[i] = given(made, call.root, own + i);
          break;
        case Collective::kAllToAll:
          result[i] = given(made, from, own + i % call.count);
          break;
        default:  // all_gather and gather
          result[i] = given(made, from, i % call.count);
      }
    }
    return result;
  }

  void add_launch(Made& made, const VerifiedPlan& plan, const LaunchShape& shape, int rank) {
    const auto r = static_cast<size_t>(rank);
    DeviceRank self;
    self.rank = rank;
    self.ranks = ranks_;
    self.states = states_[r].data();
    for (size_t peer = 0; peer < blocks_.size(); ++peer) self.blocks[peer] = blocks_[peer].get();
    self.failures = failures_[r].data();
    self.aborted = &aborted_;
    self.wait_nanoseconds = wait_nanoseconds_;
    const BoundPlan bound = bind(plan, made.call, rank, CudaRank::limits(shape, plan.plan()));
    made.launches.push_back(std::make_unique<PreparedLaunch>(bound, made.call, shape, self, 1));
    const auto [kernel, argument] = made.launches.back()->launch(made.ranks[r].input, made.ranks[r].output);
    ++uses_[kernel.function];
    machine_.launch(r, kernel.grid, kernel.block, body_of(kernel.function, argument));
  }

  const int ranks_;
  const uint64_t wait_nanoseconds_;
  std::mt19937_64 random_;
  Simt machine_;
  std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> blocks_;
  std::vector<std::vector<StrandState>> states_;
  std::vector<std::vector<StrandFailure>> failures_;
  uint32_t aborted_ = 0;
  std::map<std::tuple<std::string, Collective, int>, VerifiedPlan> plans_;
  std::deque<Made> calls_;
  std::map<const void*, int> uses_;
};

TEST(KernelsOnCpu, RandomCallsInUnluckyOrders) {
  std::map<const void*, int> uses;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 4);
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(ranks, seed, UINT64_MAX);
    for (int call = 0; call < 12; ++call) world.add(ranks);
    ASSERT_NO_THROW(world.run());
    world.check();
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(world.failures_of(static_cast<size_t>(rank)), 0);
    for (const auto& [function, times] : world.uses()) uses[function] += times;
  }
  // Engines for any plan with packets and with lines, and kernels of one step with 1, 2 and 4 words, and 1 and 2 lines.
  EXPECT_EQ(uses.size(), 7u);
}

// Waits are bounded, and who gave up begins nothing more: all launches end.
TEST(KernelsOnCpu, ARankThatDoesNotCome) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(3, seed, 5'000'000'000);  // as the machine's clock goes, some thousand looks
    for (int call = 0; call < 2; ++call) world.add(3);
    for (int call = 0; call < 4; ++call) world.add(2);
    ASSERT_NO_THROW(world.run());
    EXPECT_GT(world.failures_of(0) + world.failures_of(1), 0);
    EXPECT_EQ(world.failures_of(2), 0);
  }
}

}  // namespace
}  // namespace plait
