// The kernels that perform plans, run on a CPU: random calls of several ranks in random orders; ranks that come late,
// do not come, or make another call; and epochs of more than 32 bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "api/plan_limits.hpp"
#include "base/error.hpp"
#include "bench/exact_input.hpp"
#include "plan/builder.hpp"
#include "plan/shape.hpp"
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

namespace plait {
namespace {

constexpr size_t kMostSlices = 12;  // per channel, with Simple
using test::kTypes, test::Simt, test::Uses;

bool has_two_steps(const TwoShotSteps::Slice& slice) {
  const bool forwards = std::any_of(std::begin(slice.places[0]), std::end(slice.places[0]), [](const TwoShotPlace& it) {
    return is_flagged(it.addresses[TwoShotPlace::kReceiveTo]);
  });
  return forwards || slice.phase_count == 2;
}

// One call of all ranks, or of some.
struct Made {
  Call call;
  int variant = 0;
  bool lacks_a_rank = false;  // see add_without_one_rank()
  std::vector<int> ranks;     // the ranks that make it
  std::vector<std::unique_ptr<test::CallBuffers>> buffers;
  std::vector<std::unique_ptr<PreparedLaunch>> launches;
};

class World : public test::SimtWorld {
 public:
  using SimtWorld::SimtWorld;

  // Adds a random call, on all ranks below `missing`.
  void add(int missing) {
    Made& made = calls_.emplace_back();
    made.call = any_call();
    const bool is_barrier = made.call.collective == Collective::kBarrier;  // it has no data, so no LL
    const Way way = is_barrier || pick(0, 1) == 0 ? simple_way(made.call) : ll_way(made.call);
    make(made, way, first_ranks(missing));
  }

  // Adds a random call with LL or LL128.
  void add_ll() {
    Made& made = calls_.emplace_back();
    made.call = any_call_with_data();
    const Way way = ll_way(made.call);
    make(made, way, first_ranks(ranks_));
  }

  // Adds a random call by a plan of this algorithm. False: it adds none, because the protocol cannot perform the plan.
  bool add_of(const Algorithm& algorithm, Direction direction, Collective collective, Protocol protocol,
              DataType type) {
    Call call{collective, type};
    if (has_root(collective)) call.root = pick(0, ranks_ - 1);
    const bool is_simple = protocol == Protocol::kSimple;
    auto forms = test::forms_of(algorithm, machine_of(call), is_simple ? std::vector{1, 2, 3} : std::vector{1});
    const auto plan_of_form = [&](const AlgorithmArguments& form) -> const VerifiedPlan& {
      return plan_of(to_text(spec_of(algorithm, form)), call, 1);
    };
    std::erase_if(forms, [&](const AlgorithmArguments& form) {
      return form.direction != direction || !fits_a_launch(plan_of_form(form));
    });
    if (forms.empty()) return false;
    const VerifiedPlan& plan = plan_of_form(test::any_of(random_, forms));
    if (!is_simple && !plan.can_carry_flags(call.type)) return false;
    Made& made = calls_.emplace_back();
    made.call = call;
    if (!is_simple) draw_size_for_ll(made.call);
    make(made, is_simple ? simple_way(made.call, plan) : ll_way(plan, protocol), first_ranks(ranks_));
    return true;
  }

  // Adds an all_reduce by one channel, on all ranks below `missing`.
  void add_all_reduce(int missing, Protocol protocol, int parts, size_t count = 100) {
    Made& made = calls_.emplace_back();
    made.call = {Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, count};
    const VerifiedPlan& plan = plan_of("flat(store)", made.call, parts);
    const LaunchShape shape{protocol, 1, kLeastThreads};
    make(made, {plan, shape, CudaRank::limits(shape, plan.plan())}, first_ranks(missing));
  }

  // Adds the same call several times. It has one slice with work for each warp, or several slices, the last one too
  // short to have work for all ranks.
  void add_repeated(Collective collective, Protocol protocol, int times, bool in_slices) {
    Call call{collective, DataType::kInt32};
    call.count = static_cast<size_t>(ranks_) * 100;
    const VerifiedPlan& plan = plan_of("flat(store)", call, 1);
    const LaunchShape shape{protocol, 1, kLeastThreads};
    BindLimits limits = CudaRank::limits(shape, plan.plan());
    if (in_slices) {
      limits.scratch_bytes = 512;
      draw_count_for_slices(call, plan, limits);
    }
    for (int time = 0; time < times; ++time) {
      Made& made = calls_.emplace_back();
      made.call = call;
      make(made, {plan, shape, limits}, first_ranks(ranks_));
    }
  }

  // Adds an all_reduce by this plan, with Simple.
  void add_by(const VerifiedPlan& plan, size_t count) {
    Made& made = calls_.emplace_back();
    made.call = {Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, count};
    const LaunchShape shape{Protocol::kSimple, 1, kLeastThreads};
    make(made, {plan, shape, CudaRank::limits(shape, plan.plan())}, first_ranks(ranks_));
  }

  // Adds a random call of this collective that one rank, `after_root` ranks after the root, does not come to. On all
  // other ranks a launch with PDL follows, which finds out whether the waits of the first one had ended.
  void add_without_one_rank(Collective collective, Protocol protocol, int after_root) {
    Made& made = calls_.emplace_back();
    made.lacks_a_rank = true;
    made.call = {collective, DataType::kInt32, ReduceOp::kSum, has_root(collective) ? pick(0, ranks_ - 1) : 0, 4};
    if (reduces(collective) && pick(0, 3) == 0) made.call.op = ReduceOp::kMax;
    // Most calls are long enough that all ranks have work for one warp, or for both; in the others one rank has it all.
    if (pick(0, 7) > 0) made.call.count = static_cast<size_t>(ranks_ * (pick(0, 1) == 0 ? 32 : 100));
    const bool is_one_shot = has_one_shot(made.call) && pick(0, 5) == 0;
    const int parts = protocol == Protocol::kSimple ? pick(1, 2) : 1;
    const VerifiedPlan& plan = plan_of(is_one_shot ? "one_shot(store)" : "flat(store)", made.call, parts);
    const LaunchShape shape{protocol, pick(1, 2), kLeastThreads};
    BindLimits limits = CudaRank::limits(shape, plan.plan());
    limits.least_slice_bytes = 1;
    std::vector<int> ranks = first_ranks(ranks_);
    ranks.erase(ranks.begin() + (made.call.root + after_root) % ranks_);
    make(made, {plan, shape, limits}, ranks);
  }
  // How many waits of the last call gave up. The launch behind it must have started after that.
  int waits_given_up() const {
    const Made& made = calls_.back();
    int gave_up = 0;
    for (const int rank : made.ranks) {
      const int failures = failures_of(static_cast<size_t>(rank));
      EXPECT_EQ(failures_before_next_.at(rank), failures)
          << to_text(made.call) << ", rank " << rank << " of " << ranks_;
      gave_up += failures;
    }
    return gave_up;
  }

  // Adds a random call with Simple, and on one rank a different call. `alike`: with the same plan.
  void add_different(bool alike) {
    std::vector<int> others = first_ranks(ranks_);
    const auto odd = others.begin() + pick(0, ranks_ - 1);
    const std::vector<int> one = {*odd};
    others.erase(odd);
    Made& made = calls_.emplace_back();
    Made& different = calls_.emplace_back();
    made.call = any_call_with_data();
    Way way = simple_way(made.call);
    if (alike) way.host_path = 0;
    make(made, way, others);
    if (alike) {
      different.call = made.call;
      if (reduces(made.call.collective) && pick(0, 1) == 0) {
        different.call.op = made.call.op == ReduceOp::kMax ? ReduceOp::kMin : ReduceOp::kMax;
      } else {
        ++different.call.count;
      }
      make(different, way, one);
    } else {
      different.call = any_call();
      make(different, simple_way(different.call), one);
    }
  }

  // Delays the calls of the last rank from now on.
  void delay_last_rank(uint64_t turns) {
    for (const int stream : {ranks_ - 1, 2 * ranks_ - 1}) {
      machine_.launch(static_cast<size_t>(stream), {1}, {1}, [turns] {
        for (uint64_t turn = 0; turn < turns; ++turn) Simt::pause();
      });
    }
  }

  // How many output elements of a rank's calls are wrong.
  size_t wrong_of(int rank) const {
    size_t wrong = 0;
    for (const Made& made : calls_) wrong += count_wrong(made, rank);
    return wrong;
  }
  // How many calls had a wrong output when they were over, without having reported an error.
  int unreported() const { return unreported_; }

  void check() {
    for (Made& made : calls_) {
      for (const int rank : made.ranks) {
        EXPECT_EQ(count_wrong(made, rank), 0u) << to_text(made.call) << ", rank " << rank << " of " << ranks_;
      }
    }
    check_surroundings();
  }

  void check_surroundings() {
    for (Made& made : calls_) {
      for (const int rank : made.ranks) {
        EXPECT_NO_THROW(made.buffers[static_cast<size_t>(rank)]->require_untouched_surroundings())
            << to_text(made.call) << ", rank " << rank << " of " << ranks_;
      }
    }
  }

  // How often a rank reports, in the last calls of all, that another rank makes a different call. The reports must be
  // right. Ranks can know which rank it is only if both perform the same plan.
  int reports_of_different_calls(bool alike) const {
    int found = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      for (const ChannelFailure& report : reports_of(static_cast<size_t>(rank))) {
        if (report.state != ChannelFailure::kOtherCall) continue;
        ++found;
        const std::vector<int> accused = alike ? std::vector<int>{report.peer} : first_ranks(ranks_);
        EXPECT_TRUE(std::any_of(accused.begin(), accused.end(),
                                [&](int it) { return report.seen_call == tag_of(signature(last_call_of(it))); }))
            << "rank " << rank << " blames " << report.peer;
        EXPECT_EQ(report.expected_call, tag_of(signature(last_call_of(rank)))) << "rank " << rank;
        EXPECT_NE(report.seen_call, report.expected_call);
        EXPECT_GT(report.expected_epoch, 0u);
        EXPECT_EQ(report.seen_epoch, report.expected_epoch);
        EXPECT_GE(report.operation, 0);
      }
    }
    return found;
  }

  const Uses& uses() const { return uses_; }
  // How many launches of two-shot calls have two steps, by collective.
  const std::map<Collective, int>& two_steps() const { return two_steps_; }
  // How many launches there are of each kind.
  int host_path() const { return host_path_; }
  int endings() const { return endings_; }  // with another plan for the last slices
  int partial() const { return partial_; }  // that store partial results in float32

 private:
  // How a call is performed.
  struct Way {
    const VerifiedPlan& plan;
    LaunchShape shape;
    BindLimits limits;
    size_t host_path = 0;                  // the last elements of each block that take the host path
    const VerifiedPlan* ending = nullptr;  // for the last slices of the rest
  };

  std::vector<int> first_ranks(int count) const {
    std::vector<int> ranks(static_cast<size_t>(count));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }

  // A random call without a size.
  Call any_call() {
    Call call;
    call.collective = static_cast<Collective>(pick(0, kCollectiveCount - 1));
    call.type = test::any_of(random_, kTypes);
    if (pick(0, 3) == 0) call.op = test::any_of(random_, reductions_of(call.type));
    if (has_root(call.collective)) call.root = pick(0, ranks_ - 1);
    if (!reduces(call.collective)) call.op = ReduceOp::kSum;
    return call;
  }
  Call any_call_with_data() {
    for (;;) {
      if (const Call call = any_call(); call.collective != Collective::kBarrier) return call;
    }
  }

  const Call& last_call_of(int rank) const {
    return std::find_if(calls_.rbegin(), calls_.rend(), [rank](const Made& made) { return is_of(made, rank); })->call;
  }
  static bool is_of(const Made& made, int rank) {
    return std::find(made.ranks.begin(), made.ranks.end(), rank) != made.ranks.end();
  }
  // How many elements of the rank's output are wrong; 0 if it does not make the call.
  size_t count_wrong(const Made& made, int rank) const {
    if (!is_of(made, rank)) return 0;
    return plait::count_wrong(made.call, ranks_, rank, made.variant, made.buffers[static_cast<size_t>(rank)]->output());
  }

  void draw_size_for_ll(Call& call) {
    const auto element = static_cast<int>(size_of(call.type)), in_word = static_cast<int>(sizeof(uint64_t)) / element;
    call.count = static_cast<size_t>(pick(0, 2) == 0 ? pick(1, 40) : pick(1, (12'000 >> pick(0, 4)) / element));
    if (pick(0, 1) == 0) call.count = (call.count + in_word - 1) / in_word * in_word;
    // Now and then all chunks have one size, be there one for each rank or one for each rank except the root.
    if (pick(0, 2) == 0) call.count = static_cast<size_t>(512 / element * ranks_ * (ranks_ - 1) * pick(1, 3));
  }

  // Also draws the size of the call.
  Way ll_way(Call& call) {
    draw_size_for_ll(call);
    const VerifiedPlan& plan =
        plan_of(has_one_shot(call) && pick(0, 3) == 0 ? "one_shot(store)" : "flat(store)", call, 1);
    return ll_way(plan, pick(0, 1) == 0 ? Protocol::kLl : Protocol::kLl128);
  }
  Way ll_way(const VerifiedPlan& plan, Protocol protocol) {
    const LaunchShape shape{protocol, pick(1, 3), 64 * pick(1, 2)};
    return {plan, shape, CudaRank::limits(shape, plan.plan())};
  }

  // Also draws the size of the call, and limits scratch so that a short message has many slices.
  Way simple_way(Call& call) { return simple_way(call, plan_of(any_algorithm(call), call, 1)); }
  Way simple_way(Call& call, const VerifiedPlan& plan) {
    const LaunchShape shape{Protocol::kSimple, pick(1, 2), kLeastThreads};
    BindLimits limits = CudaRank::limits(shape, plan.plan());
    const size_t widest = accumulator_size_of(call.type);
    size_t slots = 1;
    for (const RankPlan& rank : plan.plan().ranks) slots = std::max(slots, static_cast<size_t>(rank.scratch_slots));
    const size_t granule = kChunkAlignment / size_of(call.type) * widest;
    const size_t granules = std::min(limits.scratch_bytes / (granule * slots),
                                     static_cast<size_t>(pick(0, 5) == 0 ? pick(20, 40) : pick(1, 4)));
    const size_t slot_bytes = granule * granules;
    limits.scratch_bytes = slot_bytes * slots;
    limits.least_slice_bytes = 1;
    if (call.collective == Collective::kBarrier) return {plan, shape, limits};
    const size_t slice = slot_bytes / widest * static_cast<size_t>(plan.plan().chunks_per_block);
    call.count = static_cast<size_t>(pick(1, static_cast<int>(slice * limits.channels * kMostSlices)));
    const size_t host_path = pick(0, 2) == 0 ? static_cast<size_t>(pick(0, static_cast<int>(call.count))) : 0;
    return {plan, shape, limits, host_path, orders_() % 2 == 0 ? any_ending(call, plan) : nullptr};
  }

  // Another plan with as many queues, if there is one. The launch then has three programs in the room of two.
  const VerifiedPlan* any_ending(const Call& call, const VerifiedPlan& plan) {
    PlanLimits third = short_gpu_plan_limits();
    for (int* const limit : {&third.operations, &third.places, &third.signals}) *limit = *limit * 2 / 3;
    if (third.excess(plan)) return nullptr;
    std::vector<const VerifiedPlan*> others;
    for (const std::string& text : texts_for(call)) {
      const VerifiedPlan& other = plan_of(text, call, 1);
      const bool fits = std::equal(plan.plan().ranks.begin(), plan.plan().ranks.end(), other.plan().ranks.begin(),
                                   [](const auto& a, const auto& b) { return a.queues.size() == b.queues.size(); });
      if (fits && &other != &plan && !third.excess(other)) others.push_back(&other);
    }
    return others.empty() ? nullptr : others[orders_() % others.size()];
  }

  // Draws an algorithm: most often one that GPUs use, since some of these have several queues per rank. Few of them
  // store partial results, so reductions in float32 draw from all alike.
  std::string any_algorithm(const Call& call) {
    const int times = reduces(call.collective) && accumulates_in_float32(call.type) ? 1 : 4;
    std::vector<std::string> texts;
    for (const std::string& text : texts_for(call)) {
      texts.insert(texts.end(), text.find("(store") != std::string::npos ? times : 1, text);
    }
    return test::any_of(random_, texts);
  }

  AlgorithmArguments machine_of(const Call& call) const {
    AlgorithmArguments machine;
    machine.collective = call.collective;
    machine.ranks = ranks_;
    machine.root = call.root;
    machine.engine = Engine::kSm;
    return machine;
  }

  const std::vector<std::string>& texts_for(const Call& call) {
    std::vector<std::string>& texts = texts_[{call.collective, call.root}];
    if (!texts.empty()) return texts;
    texts = test::texts_for(machine_of(call), {1, 2, 3});
    std::erase_if(texts, [&](const std::string& text) { return !fits_a_launch(plan_of(text, call, 1)); });
    return texts;
  }

  // GPUs send no messages, and a launch has room for so many operations.
  static bool fits_a_launch(const VerifiedPlan& plan) {
    return !spans_nodes(plan.plan()) && !short_gpu_plan_limits().excess(plan);
  }

  static bool has_one_shot(const Call& call) {
    return call.collective == Collective::kBroadcast ||
           (reduces(call.collective) && call.collective != Collective::kReduceScatter);
  }

  const VerifiedPlan& plan_of(const std::string& algorithm, const Call& call, int parts) {
    const auto key = std::tuple(algorithm, call.collective, call.root, parts);
    if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
    AlgorithmArguments arguments = machine_of(call);
    arguments.parts = parts;
    return plans_.emplace(key, verify(make_plan(algorithm, arguments))).first->second;
  }

  // Makes buffers with different alignments, so that ranks of one call use different kernels.
  void make_buffers(Made& made) {
    made.variant = static_cast<int>(calls_.size());
    const bool in_place = pick(0, 2) == 0;
    const size_t element = size_of(made.call.type);
    for (int rank = 0; rank < ranks_; ++rank) {
      test::BufferLayout layout;
      layout.in_place = in_place && has_input(made.call, rank) && has_output(made.call, rank);
      layout.input_offset = pick(0, 3) == 0 ? static_cast<size_t>(pick(1, 3)) * element : 0;
      layout.output_offset = pick(0, 3) == 0 ? static_cast<size_t>(pick(1, 3)) * element : 0;
      auto buffers = std::make_unique<test::CallBuffers>(made.call, ranks_, rank, layout);
      fill_input(made.call, ranks_, rank, made.variant, buffers->input());
      buffers->remember();
      watch(*buffers, rank);
      made.buffers.push_back(std::move(buffers));
    }
  }

  // Chooses the smallest count that has several slices and a last slice of at most one smallest chunk.
  static void draw_count_for_slices(Call& call, const VerifiedPlan& plan, const BindLimits& limits) {
    for (call.count = 1; call.count < 1000; ++call.count) {
      const BoundPlan bound = bind(plan, call, 0, limits);
      const size_t before_last = (bound.slices - 1) * bound.slice_bytes;
      if (bound.slices > 1 && call.count * size_of(call.type) <= before_last + kChunkAlignment) return;
    }
    FAIL() << "no such count: " << to_text(call);
  }

  void make(Made& made, const Way& way, const std::vector<int>& ranks) {
    make_buffers(made);
    made.ranks = ranks;
    for (const int rank : ranks) add_launch(made, way, rank);
  }

  void add_launch(Made& made, const Way& way, int rank) {
    const auto r = static_cast<size_t>(rank);
    const size_t over_links = made.call.count - way.host_path;
    const BoundPlan bound = bind(way.plan, made.call, rank, way.limits, {0, over_links});
    std::optional<BoundPlan> ending;
    if (way.ending != nullptr) {  // this plan has more scratch
      const BindLimits limits = CudaRank::limits(way.shape, way.ending->plan());
      ending = bind_alike(bound, *way.ending, made.call, rank, limits, {0, over_links});
      endings_ += bound.slices > 1;
    }
    made.launches.push_back(
        std::make_unique<PreparedLaunch>(bound, made.call, way.shape, end_of(rank), 0, ending ? &*ending : nullptr));
    const auto [kernel, argument] = made.launches.back()->launch(made.buffers[r]->input(), made.buffers[r]->output());
    ++uses_[{kernel.function, kernel.grid.y}];
    if (test::is_two_shot(made.call.type, kernel.function) &&
        has_two_steps(static_cast<const TwoShotLaunch*>(argument)->steps.last)) {
      ++two_steps_[made.call.collective];
    }
    if (way.shape.protocol == Protocol::kSimple) {
      auto& launch = *static_cast<SimpleLaunch*>(argument);
      if (bound.slices <= kernel.grid.x) std::fill(std::begin(launch.full), std::end(launch.full), SliceProgram{});
      if (bound.slices == 1) std::fill(std::begin(launch.ending), std::end(launch.ending), SliceProgram{});
      const auto& operations = launch.operations;
      partial_ += std::any_of(std::begin(operations), std::end(operations), [](auto& it) { return it.result_is_wide; });
    }
    const bool pdl = way.host_path == 0 && orders_() % 4 > 0;
    machine_.launch(r, kernel.grid, kernel.block, test::body_of(made.call.type, kernel.function, argument), pdl);
    if (way.host_path > 0) return add_host_launch(made, way, rank);
    if (made.lacks_a_rank) {
      machine_.launch(r, {1}, {1}, [this, rank, r] { failures_before_next_[rank] = failures_of(r); }, true);
      return;
    }
    if (orders_() % 2 == 0) return;  // so that sometimes the next kernel follows directly
    machine_.launch(r, {1}, {1}, [this, &made, rank, r] {
      if (count_wrong(made, rank) > 0 && failures_of(r) == 0) ++unreported_;
    });
  }

  // Adds the host path on a stream of its own, so that it may also overlap with earlier and later calls.
  void add_host_launch(Made& made, const Way& way, int rank) {
    const auto r = static_cast<size_t>(rank);
    const BlockPart rest{made.call.count - way.host_path, way.host_path};
    const BoundPlan bound = bind(way.plan, made.call, rank, way.limits, rest);
    const HostPathLaunch host_path{host_blocks()};
    made.launches.push_back(
        std::make_unique<PreparedLaunch>(bound, made.call, way.shape, end_of(rank), 0, nullptr, &host_path));
    const auto [kernel, argument] = made.launches.back()->launch(made.buffers[r]->input(), made.buffers[r]->output());
    static_cast<SimpleLaunch*>(argument)->rate_limit = rest.count % 2;
    ++host_path_;
    machine_.launch(static_cast<size_t>(ranks_) + r, kernel.grid, kernel.block,
                    test::body_of(made.call.type, kernel.function, argument));
  }

  std::map<std::pair<Collective, int>, std::vector<std::string>> texts_;  // by collective and root
  // By algorithm, collective, root and parts.
  std::map<std::tuple<std::string, Collective, int, int>, VerifiedPlan> plans_;
  std::deque<Made> calls_;
  std::minstd_rand orders_;  // for the order of launches: drawing from it does not change the calls
  Uses uses_;
  std::map<Collective, int> two_steps_;
  int host_path_ = 0, endings_ = 0, partial_ = 0;
  int unreported_ = 0;
  std::map<int, int> failures_before_next_;  // by rank: failures when the launch after a call without one rank started
};

// Under sanitizers, too, these are all the seeds: with fewer, some kernels would not be launched.
TEST(KernelsOnCpu, RandomCallsInRandomOrders) {
  Uses uses;
  std::map<Collective, int> two_steps;
  int host_path = 0, endings = 0;
  for (uint64_t seed = 1; seed <= 75; ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 4);
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(ranks, seed, UINT64_MAX);
    if (seed % 10 == 5) world.find_races();
    for (int call = 0; call < 12; ++call) world.add(ranks);
    ASSERT_NO_THROW(world.run());
    world.check();
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(world.failures_of(static_cast<size_t>(rank)), 0);
    for (const auto& [kernel, times] : world.uses()) uses[kernel] += times;
    for (const auto& [collective, times] : world.two_steps()) two_steps[collective] += times;
    host_path += world.host_path();
    endings += world.endings();
  }
  EXPECT_GT(host_path, 100);
  EXPECT_GT(endings, 100);
  // A change that draws once more from pick() leads to other calls, which may use fewer kernels. Then add seeds, or
  // draw from `orders_` instead.
  EXPECT_EQ(test::never_launched(uses), "");
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast}) {
    EXPECT_GT(two_steps[collective], 5) << name(collective);
  }
}

// This includes algorithms that GPUs use only on request.
TEST(KernelsOnCpu, EveryAlgorithmInEveryProtocol) {
  constexpr int kMostRanks = test::kSanitized ? 3 : 4;
  std::map<Protocol, int> calls;
  int partial = 0;
  uint64_t seed = 0;
  const auto add_calls = [&calls, &partial, &seed](const Algorithm& algorithm, Direction direction,
                                                   Collective collective, Protocol protocol, int ranks) {
    SCOPED_TRACE(join(algorithm.name, ", ", name(direction), ", ", name(protocol), ", seed ", ++seed));
    World world(ranks, seed, UINT64_MAX);
    if (ranks == 4) world.find_races();
    for (const DataType type : {DataType::kBfloat16, DataType::kInt8, DataType::kInt32}) {
      calls[protocol] += world.add_of(algorithm, direction, collective, protocol, type);
    }
    ASSERT_NO_THROW(world.run());
    world.check();
    partial += world.partial();
  };
  for (const Algorithm& algorithm : algorithms()) {
    for (const Collective collective : algorithm.collectives) {
      for (const Protocol protocol : {Protocol::kSimple, Protocol::kLl, Protocol::kLl128}) {
        if (protocol != Protocol::kSimple && collective == Collective::kBarrier) continue;  // no data
        for (const Direction direction : test::directions_of(algorithm, collective)) {
          for (int ranks = 3; ranks <= kMostRanks; ++ranks)
            add_calls(algorithm, direction, collective, protocol, ranks);
        }
      }
    }
  }
  for (const auto& [protocol, count] : calls) EXPECT_GT(count, test::kSanitized ? 35 : 70) << name(protocol);
  EXPECT_GT(partial, test::kSanitized ? 10 : 20);
}

// LL flags hold only a part of an epoch's number, and must not equal what unused memory holds.
TEST(KernelsOnCpu, EpochsOfMoreThan32Bits) {
  for (uint64_t seed = 1; seed <= test::shortened(30); ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 3);
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(ranks, seed, UINT64_MAX);
    if (seed % 5 == 0) world.find_races();
    const uint64_t awkward = seed % 2 == 0 ? (uint64_t{1} << 33) - 1 : uint64_t{1} << 32;  // sum of halves; lower half
    world.begin_epochs_after(awkward - static_cast<uint64_t>(world.pick(1, 3)));
    for (int call = 0; call < 6; ++call) call % 3 == 2 ? world.add(ranks) : world.add_ll();
    ASSERT_NO_THROW(world.run());
    world.check();
  }
}

// Calls reuse memory again and again, and some ranks wait for nobody: they must not store too early for any warp.
TEST(KernelsOnCpu, TheSameCallRepeatedly) {
  uint64_t seed = 0;
  const auto call_repeatedly = [&seed](Collective collective, Protocol protocol) {
    SCOPED_TRACE(join(name(collective), ", ", name(protocol), ", seed ", ++seed));
    const int ranks = 2 + static_cast<int>(seed % 2);
    const bool in_slices = seed / 2 % 2 == 0;
    World world(ranks, seed, UINT64_MAX);
    world.find_races();
    world.add_repeated(collective, protocol, 12, in_slices);
    ASSERT_NO_THROW(world.run());
    world.check();
  };
  for (int number = 0; number < kCollectiveCount; ++number) {
    const auto collective = static_cast<Collective>(number);
    if (collective == Collective::kBarrier) continue;  // it has no data
    for (const Protocol protocol : {Protocol::kSimple, Protocol::kLl, Protocol::kLl128}) {
      for (int time = 0; time < 4; ++time) call_repeatedly(collective, protocol);
    }
  }
}

// A batch of copies reads what other threads have written. Without signals in between, there has to be a barrier.
TEST(KernelsOnCpu, CopiesOfFreshResultsHaveABarrier) {
  PlanBuilder builder({"test", Collective::kAllReduce, 1, 0, 2});
  const QueueId queue = builder.add_queue(0, Engine::kSm);
  const Place slot = builder.take_scratch(0, 2);
  builder.copy(queue, slot, input_of(0), 0, 2);
  builder.copy(queue, output_of(0), slot, 0);
  builder.copy(queue, output_of(0), slot_after(slot, 1), 1);
  const VerifiedPlan plan = verify(builder.finish());
  for (const size_t count : {100, 300, 1000}) {
    SCOPED_TRACE(count);
    World world(1, count, UINT64_MAX);
    world.find_races();
    world.add_by(plan, count);
    ASSERT_NO_THROW(world.run());
    world.check();
  }
}

void expect_wrong_outputs_are_reported(World& world, int ranks) {
  EXPECT_EQ(world.unreported(), 0);
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_TRUE(world.wrong_of(rank) == 0 || world.failures_of(static_cast<size_t>(rank)) > 0) << "rank " << rank;
  }
  world.check_surroundings();
}

// With PDL, a launch that has started occupies SMs. So it must not start while the previous launch waits for one that
// has not started on another GPU. In a broadcast of two steps, that may be a rank that sends nothing in the first step.
TEST(KernelsOnCpu, PdlKeepsOutNoLaunchThatIsStillAwaited) {
  constexpr int kRounds = test::kSanitized ? 2 : 4;
  std::map<std::pair<Collective, Protocol>, int> gave_up;
  int in_two_steps = 0;  // broadcasts in two steps
  uint64_t seed = 0;
  const auto call_without_one_rank = [&](int round, Collective collective, Protocol protocol) {
    const int ranks = round == 0 ? 2 : 3;
    SCOPED_TRACE("seed " + std::to_string(++seed));
    World world(ranks, seed, 1'000'000'000'000);  // 1000 turns
    world.add_without_one_rank(collective, protocol, round % ranks);
    ASSERT_NO_THROW(world.run());
    gave_up[{collective, protocol}] += world.waits_given_up();
    in_two_steps += static_cast<int>(world.two_steps().count(Collective::kBroadcast));
  };
  for (int number = 0; number < kCollectiveCount; ++number) {
    const auto collective = static_cast<Collective>(number);
    if (collective == Collective::kBarrier) continue;  // it has no data
    const int rounds = collective == Collective::kBroadcast ? 6 * kRounds : kRounds;
    for (const Protocol protocol : {Protocol::kSimple, Protocol::kLl, Protocol::kLl128}) {
      for (int round = 0; round < rounds; ++round) call_without_one_rank(round, collective, protocol);
      EXPECT_GT((gave_up[{collective, protocol}]), 0) << name(collective) << ", " << name(protocol);
    }
  }
  EXPECT_GT(in_two_steps, test::kSanitized ? 2 : 5);
}

// Waits are bounded, and a queue that gave up begins nothing more: all launches end.
TEST(KernelsOnCpu, AMissingRankEndsAllWaits) {
  for (uint64_t seed = 1; seed <= test::shortened(6); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(3, seed, 5'000'000'000'000);  // 5000 turns
    for (int call = 0; call < 2; ++call) world.add(3);
    for (int call = 0; call < 4; ++call) world.add(2);
    ASSERT_NO_THROW(world.run());
    EXPECT_GT(world.failures_of(0) + world.failures_of(1), 0);
    EXPECT_EQ(world.failures_of(2), 0);
    expect_wrong_outputs_are_reported(world, 3);
  }
}

TEST(KernelsOnCpu, AnAbortEndsAllWaits) {
  for (uint64_t seed = 1; seed <= test::shortened(12); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(3, seed, UINT64_MAX);
    world.add(3);
    for (int call = 0; call < 3; ++call) world.add(2);
    world.abort_after(2000);
    ASSERT_NO_THROW(world.run());
    EXPECT_GT(world.failures_of(0) + world.failures_of(1), 0);
    expect_wrong_outputs_are_reported(world, 3);
  }
}

// A report says which epoch was seen last, for LL and LL128 in the place of the missing data, and which rank stores
// there.
TEST(KernelsOnCpu, ReportsTheLastEpochSeen) {
  for (const Protocol protocol : {Protocol::kSimple, Protocol::kLl, Protocol::kLl128}) {
    for (const size_t in_chunk : {25, 26}) {  // LL and LL128 have other kernels for aligned places
      SCOPED_TRACE(join(name(protocol), ", ", in_chunk, " elements in a chunk"));
      World world(4, 1, 1'000'000'000'000);
      for (int call = 0; call < 4; ++call) world.add_all_reduce(4, protocol, 1, 4 * in_chunk);
      world.add_all_reduce(3, protocol, 1, 4 * in_chunk);
      ASSERT_NO_THROW(world.run());
      for (size_t rank = 0; rank < 3; ++rank) {
        ASSERT_EQ(world.failures_of(rank), 1);
        const ChannelFailure report = world.reports_of(rank).front();
        EXPECT_EQ(report.state, ChannelFailure::kTimedOut);
        EXPECT_EQ(report.expected_epoch, 5u);
        EXPECT_EQ(report.seen_epoch, 3u);
        EXPECT_EQ(report.peer, 3);
        if (protocol == Protocol::kSimple) {
          EXPECT_GE(report.operation, 0);
        } else {
          EXPECT_EQ(report.operation, ChannelFailure::kData);
        }
      }
    }
  }
}

// Whatever the kernels. The same holds for a queue that the first call did not have.
TEST(KernelsOnCpu, AQueueThatGaveUpBeginsNothingMore) {
  for (const Protocol first : {Protocol::kSimple, Protocol::kLl, Protocol::kLl128}) {
    SCOPED_TRACE(name(first));
    World world(3, 1, 1'000'000'000'000);
    world.add_all_reduce(2, first, 1);
    ASSERT_NO_THROW(world.run());
    const auto stored = world.memory_of(2);
    for (const Protocol next : {Protocol::kSimple, Protocol::kLl, Protocol::kLl128}) {
      world.add_all_reduce(2, next, next == Protocol::kSimple ? 2 : 1);
    }
    ASSERT_NO_THROW(world.run());
    for (const size_t rank : {0, 1}) EXPECT_EQ(world.failures_of(rank), 1);
    EXPECT_TRUE(world.memory_of(2) == stored);
  }
}

// A rank comes when the others are about to give up: some channels may give up while others go on.
TEST(KernelsOnCpu, WrongOutputsAreReported) {
  int gave_up = 0, went_well = 0;
  const auto has_seen_both = [&] { return std::min(gave_up, went_well) > test::shortened(20); };
  for (uint64_t seed = 1; seed <= test::shortened(100) || (!has_seen_both() && seed <= test::shortened(400)); ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 2);
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(ranks, seed, 500'000'000'000);  // 500 turns
    world.delay_last_rank(static_cast<uint64_t>(world.pick(200, 650)));
    for (int call = 0; call < 3; ++call) world.add(ranks);
    ASSERT_NO_THROW(world.run());
    expect_wrong_outputs_are_reported(world, ranks);
    int failures = 0;
    for (int rank = 0; rank < ranks; ++rank) failures += world.failures_of(static_cast<size_t>(rank));
    ++(failures > 0 ? gave_up : went_well);
  }
  EXPECT_GT(gave_up, test::shortened(20));
  EXPECT_GT(went_well, test::shortened(20));
}

// Signals carry the tag of their call.
TEST(KernelsOnCpu, DifferentCallsAreReported) {
  int found = 0;
  for (uint64_t seed = 1; seed <= test::shortened(60); ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 3);
    const bool alike = seed % 2 == 0;
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(ranks, seed, 1'000'000'000'000);  // 1000 turns
    world.add(ranks);
    world.add_different(alike);
    ASSERT_NO_THROW(world.run());
    expect_wrong_outputs_are_reported(world, ranks);
    const int reports = world.reports_of_different_calls(alike);
    EXPECT_GE(reports, alike ? 1 : 0);
    found += reports;
  }
  EXPECT_GT(found, test::shortened(60));
}

// A different call is reported at once, and not only after the timeout.
TEST(KernelsOnCpu, ADifferentCallIsNoticedAtOnce) {
  for (uint64_t seed = 1; seed <= test::shortened(20); ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 3);
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(ranks, seed, UINT64_MAX);
    world.add_different(true);
    int noticed = 0;
    world.abort_after(1000, [&] { noticed = world.reports_of_different_calls(true); });
    ASSERT_NO_THROW(world.run());
    EXPECT_GT(noticed, 0);
  }
}

}  // namespace
}  // namespace plait
