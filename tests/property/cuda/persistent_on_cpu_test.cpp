// The persistent kernel, run on a CPU: ranks make random blocking calls, some of which they have it serve while other
// ranks launch the same call; it leaves when it is idle; ranks that do not come, and aborts, end all waits.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/exact_input.hpp"
#include "plan/verifier.hpp"
#include "runtime/cuda/kernels/prepared_launch.hpp"
#include "runtime/cuda/rank/cuda_rank.hpp"
#include "support/algorithm_plans.hpp"
#include "support/call_buffers.hpp"
#include "support/seed.hpp"
// clang-format off: ahead of all kernels
#include "support/simt_world.hpp"
// clang-format on
#include "property/cuda/kernel_bodies.hpp"
#include "runtime/cuda/persistent/call_slots.hpp"
#include "runtime/cuda/persistent/persistent_kernel.cuh"
#include "runtime/cuda/persistent/request_queue.hpp"

namespace plait {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;  // a turn of all threads
constexpr int kMostCtas = 3;
using test::Simt, test::kTypes;

// A call of all ranks, made some times.
struct Repeated {
  Call call;
  std::vector<std::unique_ptr<test::CallBuffers>> buffers;
  std::vector<std::unique_ptr<PreparedLaunch>> launches;
};

// A rank's host, its work queue and what it did.
struct Host {
  explicit Host(RequestQueue<>::Launch launch)
      : host(std::make_unique<HostRequests>()),
        device(std::make_unique<DeviceRequests>()),
        queue(host->queue, std::move(launch)),
        slots(host->slots) {}

  std::unique_ptr<HostRequests> host;
  std::unique_ptr<DeviceRequests> device;
  RequestQueue<> queue;
  CallSlots slots;
  std::array<uint64_t, 2> ordinary{};  // launches that were made, and that are over
  int served = 0, known = 0, persistent_launches = 0, wrong = 0, unanswered = 0;
};

class World : public test::SimtWorld {
 public:
  World(int ranks, uint64_t seed, uint64_t wait_nanoseconds, uint64_t idle_turns, uint64_t longest_turns)
      : SimtWorld(ranks, seed, wait_nanoseconds),
        orders_(seed),
        idle_turns_(idle_turns),
        longest_turns_(longest_turns) {
    for (int rank = 0; rank < ranks; ++rank) {
      Host& host = *hosts_.emplace_back(
          std::make_unique<Host>([this, rank](uint64_t number, uint64_t first) { launch(rank, number, first); }));
      const std::string of_rank = " of rank " + std::to_string(rank);
      machine_.watch(host.host.get(), sizeof(HostRequests), "the queue in host memory" + of_rank);
      machine_.watch(host.device.get(), sizeof(DeviceRequests), "the queue in GPU memory" + of_rank);
      machine_.watch(host.ordinary.data(), sizeof(host.ordinary), "the counts of launches" + of_rank);
    }
  }

  // All ranks below `missing` make `times` calls, drawn from a few. `served`: the share of calls, in percent, that a
  // rank has the persistent kernel perform.
  void make_calls(int times, int kinds, int served, int missing) {
    for (int kind = 0; kind < kinds; ++kind) add_kind();
    std::vector<size_t> order;
    for (int i = 0; i < times; ++i) order.push_back(static_cast<size_t>(pick(0, kinds - 1)));
    for (int rank = 0; rank < missing; ++rank) {
      const uint64_t seed = orders_();
      machine_.launch(static_cast<size_t>(rank), {1}, {1}, [=, this] { be_host(rank, order, served, seed); });
    }
  }
  void abort_all_after(uint64_t turns) {
    abort_after(turns, [this] { has_failed_ = true; });
  }

  void check() const {
    for (int rank = 0; rank < ranks_; ++rank) {
      EXPECT_EQ(of(rank).wrong, 0) << "rank " << rank;
      EXPECT_EQ(of(rank).unanswered, 0) << "rank " << rank;
      EXPECT_EQ(failures_of(static_cast<size_t>(rank)), 0) << "rank " << rank;
    }
    check_surroundings();
  }
  void check_surroundings() const {
    for (const auto& kind : kinds_) {
      for (const auto& buffers : kind->buffers) EXPECT_NO_THROW(buffers->require_untouched_surroundings());
    }
  }
  const Host& of(int rank) const { return *hosts_[static_cast<size_t>(rank)]; }

 private:
  // A random call that is two-shot with LL on all ranks, with random alignments.
  void add_kind() {
    for (;;) {
      auto made = std::make_unique<Repeated>();
      constexpr std::array kCollectives = {Collective::kAllReduce, Collective::kAllReduce, Collective::kReduce,
                                           Collective::kBroadcast, Collective::kAllGather, Collective::kAllToAll};
      made->call = {test::any_of(random_, kCollectives), test::any_of(random_, kTypes)};
      if (has_root(made->call.collective)) made->call.root = pick(0, ranks_ - 1);
      made->call.is_blocking = true;
      made->call.count = static_cast<size_t>(pick(0, 1) == 0 ? pick(1, 20) : pick(1, 2000 / ranks_));
      if (prepare(*made)) return void(kinds_.push_back(std::move(made)));
    }
  }

  bool prepare(Repeated& made) {
    const bool sums_everywhere =
        made.call.collective == Collective::kAllReduce || made.call.collective == Collective::kReduce;
    AlgorithmArguments arguments;
    arguments.collective = made.call.collective;
    arguments.ranks = ranks_;
    arguments.root = made.call.root;
    arguments.engine = Engine::kSm;
    const auto plan = std::make_unique<VerifiedPlan>(
        verify(make_plan(sums_everywhere ? "one_shot(store)" : "flat(store)", arguments)));
    const LaunchShape shape{Protocol::kLl, pick(1, kMostCtas), kLeastThreads};
    BindLimits limits = CudaRank::limits(shape, plan->plan());
    limits.least_slice_bytes = 64;
    for (int rank = 0; rank < ranks_; ++rank) {
      const BoundPlan bound = bind(*plan, made.call, rank, limits);
      made.launches.push_back(std::make_unique<PreparedLaunch>(bound, made.call, shape, end_of(rank), 0));
      if (!made.launches.back()->is_two_shot_ll()) return false;
      test::BufferLayout layout;
      const size_t element = size_of(made.call.type);
      layout.in_place = pick(0, 3) == 0 && has_input(made.call, rank) && has_output(made.call, rank);
      layout.input_offset = pick(0, 3) == 0 ? static_cast<size_t>(pick(1, 3)) * element : 0;
      layout.output_offset = pick(0, 3) == 0 ? static_cast<size_t>(pick(1, 3)) * element : 0;
      made.buffers.push_back(std::make_unique<test::CallBuffers>(made.call, ranks_, rank, layout));
      made.buffers.back()->remember();
    }
    // Not sooner: what is watched stays where it is.
    for (int rank = 0; rank < ranks_; ++rank) watch(*made.buffers[static_cast<size_t>(rank)], rank);
    return true;
  }

  // The persistent kernel of a rank, behind its earlier launches.
  void launch(int rank, uint64_t number, uint64_t first) {
    Host& host = *hosts_[static_cast<size_t>(rank)];
    ++host.persistent_launches;
    PersistentLaunch argument;
    argument.host = &host.host->queue;
    argument.device = &host.device->queue;
    argument.host_slots = host.host->slots;
    argument.slots = host.device->slots;
    argument.aborted = end_of(rank).aborted;
    argument.number = number;
    argument.first = first;
    argument.idle_nanoseconds = idle_turns_ * kSecond;
    argument.longest_nanoseconds = longest_turns_ * kSecond;
    argument.silent_nanoseconds = UINT64_MAX;
    machine_.launch(static_cast<size_t>(kPersistentStreams + rank), {kMostCtas}, {kLeastThreads},
                    [argument] { run_persistent(argument); });
  }

  // The program of a rank: fills its input, has the call performed, looks at the output.
  void be_host(int rank, const std::vector<size_t>& order, int served_percent, uint64_t seed) {
    test::Random random(seed);
    Host& host = *hosts_[static_cast<size_t>(rank)];
    int variant = 0;
    for (const size_t kind : order) {
      for (uint64_t turns = test::between(random, 0, 3) == 0
                                ? test::between(random, 0, std::min<uint64_t>(2 * idle_turns_, 200))
                                : 0;
           turns > 0; --turns) {
        Simt::pause();
      }
      Repeated& made = *kinds_[kind];
      test::CallBuffers& buffers = *made.buffers[static_cast<size_t>(rank)];
      if (has_input(made.call, rank)) touch_input(buffers, made.call, rank);
      fill_input(made.call, ranks_, rank, ++variant, buffers.input());
      buffers.remember();
      const bool is_served = static_cast<int>(test::between(random, 0, 99)) < served_percent;
      const bool is_done = is_served ? serve(host, made, rank) : run_launch(host, made, rank);
      if (!is_done) return void(++host.unanswered);
      if (!is_served) host.queue.let_leave();
      Simt::loads(buffers.output(), buffers.output_bytes());
      if (count_wrong(made.call, ranks_, rank, variant, buffers.output()) > 0) ++host.wrong;
    }
    host.queue.let_leave();
  }
  void touch_input(test::CallBuffers& buffers, const Call& call, int rank) const {
    Simt::stores(buffers.input(), input_elements(call, ranks_, rank) * size_of(call.type));
  }

  // False: the communicator failed first.
  bool serve(Host& host, Repeated& made, int rank) {
    const auto r = static_cast<size_t>(rank);
    const Request request =
        host.slots.request_for(*made.launches[r], made.buffers[r]->input(), made.buffers[r]->output());
    ++host.served;
    host.known += request.is_new ? 0 : 1;
    const uint64_t number = host.queue.post(request);
    while (!host.queue.is_answered(number)) {
      if (has_failed_ || failures_of(r) > 0) return false;
      Simt::pause();
    }
    return true;
  }
  bool run_launch(Host& host, Repeated& made, int rank) {
    const auto r = static_cast<size_t>(rank), stream = static_cast<size_t>(kLaunchStreams + rank);
    const auto [kernel, argument] = made.launches[r]->launch(made.buffers[r]->input(), made.buffers[r]->output());
    const auto body = test::body_of(made.call.type, kernel.function, argument);
    auto& [made_so_far, over] = host.ordinary;
    const uint64_t number = made_so_far + 1;
    store_release(made_so_far, number);
    machine_.launch(stream, kernel.grid, kernel.block, [body, &host] {
      load_acquire(host.ordinary[0]);  // a launch comes after what the host did before
      body();
    });
    machine_.launch(stream, {1}, {1}, [number, &host] { store_release(host.ordinary[1], number); });
    while (load_acquire(over) < number) Simt::pause();
    return failures_of(r) == 0;
  }

  static uint64_t load_acquire(uint64_t& word) { return std::atomic_ref(word).load(std::memory_order_acquire); }
  static void store_release(uint64_t& word, uint64_t value) {
    std::atomic_ref(word).store(value, std::memory_order_release);
  }

  static constexpr int kPersistentStreams = 16, kLaunchStreams = 32;
  test::Random orders_;
  const uint64_t idle_turns_, longest_turns_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Repeated>> kinds_;
  bool has_failed_ = false;
};

TEST(PersistentOnCpu, RandomCallsInRandomOrders) {
  int served = 0, known = 0, launches = 0;
  for (uint64_t seed = 1; seed <= test::shortened(40); ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 3);
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(ranks, seed, UINT64_MAX, seed % 2 == 0 ? 1000 : 20, seed % 5 == 0 ? 100 : 100'000);
    if (seed % 2 == 0) world.find_races();
    world.make_calls(10, 3, seed % 4 == 0 ? 60 : 100, ranks);
    ASSERT_NO_THROW(world.run());
    world.check();
    for (int rank = 0; rank < ranks; ++rank) {
      served += world.of(rank).served;
      known += world.of(rank).known;
      launches += world.of(rank).persistent_launches;
    }
  }
  EXPECT_GT(served, test::shortened(500));
  EXPECT_GT(known, test::shortened(200));
  EXPECT_GT(launches, test::shortened(150));
  EXPECT_LT(launches, served);
}

// The host gets no answer, the kernel leaves, and says what it waited for.
TEST(PersistentOnCpu, AMissingRankEndsAllWaits) {
  for (uint64_t seed = 1; seed <= test::shortened(6); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(3, seed, 5000 * kSecond, 100, 100'000);
    world.make_calls(1, 1, 100, 2);
    ASSERT_NO_THROW(world.run());
    EXPECT_EQ(world.of(0).unanswered + world.of(1).unanswered > 0, world.failures_of(0) + world.failures_of(1) > 0);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(world.of(rank).unanswered > 0, world.failures_of(static_cast<size_t>(rank)) > 0);
      EXPECT_EQ(world.of(rank).wrong, 0);
    }
    world.check_surroundings();
  }
}

TEST(PersistentOnCpu, AnAbortEndsAllWaits) {
  int ended = 0;
  for (uint64_t seed = 1; seed <= test::shortened(12); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(3, seed, UINT64_MAX, UINT64_MAX / kSecond, UINT64_MAX / kSecond);  // it never leaves by itself
    world.make_calls(3, 2, 100, 2);
    world.abort_all_after(2000);
    ASSERT_NO_THROW(world.run());
    for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(world.of(rank).wrong, 0);
    ended += world.of(0).unanswered + world.of(1).unanswered;
    world.check_surroundings();
  }
  EXPECT_GT(ended, test::shortened(6));
}

}  // namespace
}  // namespace plait
