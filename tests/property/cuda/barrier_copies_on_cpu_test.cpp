// Copies and reduces between two barriers, run on a CPU: random calls of several ranks in random orders, which reuse
// their buffers as soon as a call is over; messages at the same time; and a rank that does not come.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "base/error.hpp"
#include "bench/exact_input.hpp"
#include "runtime/cuda/zero_copy/copy_program.hpp"
#include "support/call_buffers.hpp"
#include "support/seed.hpp"
// clang-format off: ahead of all kernels
#include "support/simt_world.hpp"
// clang-format on
#include "runtime/cuda/kernels/by_type.hpp"
#include "runtime/cuda/zero_copy/barrier_copy_kernel.cuh"
#include "runtime/cuda/zero_copy/barrier_kernel.cuh"
#include "runtime/cuda/zero_copy/barrier_launch.hpp"
#include "runtime/cuda/zero_copy/barrier_reduce_kernel.cuh"

namespace plait {
namespace {

using test::Simt;

constexpr Collective kPulled[] = {Collective::kBroadcast, Collective::kAllGather,     Collective::kGather,
                                  Collective::kScatter,   Collective::kAllToAll,      Collective::kAllReduce,
                                  Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduceScatter};
constexpr int kTimes = 3;  // how often each call is made

class World : public test::SimtWorld {
 public:
  World(int ranks, uint64_t seed, uint64_t wait_nanoseconds)
      : SimtWorld(ranks, seed, wait_nanoseconds),
        barriers_(static_cast<size_t>(ranks)),
        wrong_(static_cast<size_t>(ranks), 0) {
    machine_.watch(barriers_.data(), sizeof(BarrierState) * barriers_.size(), "the states of barriers");
  }

  // Adds a random call, made several times with other data in the same buffers, on all ranks below `present`.
  void add(int present, uint64_t last_is_late = 0) {
    Made& made = calls_.emplace_back();
    const VerifiedPlan plan = make_call(made);
    if (last_is_late > 0) {
      machine_.launch(static_cast<size_t>(ranks_ - 1), {1}, {1}, [last_is_late] {
        for (uint64_t turn = 0; turn < last_is_late; ++turn) Simt::pause();
      });
    }
    for (int time = 0; time < kTimes; ++time) {
      const auto agreement = static_cast<uint32_t>(calls_.size() * kTimes + static_cast<size_t>(time));
      for (int rank = 0; rank < present; ++rank)
        add_launches(made, make_copy_program(plan, made.call, rank), rank, time, agreement);
    }
  }

  // Adds a random call in which one rank has the number of the next agreement, as if it replayed another graph than the
  // others.
  void add_different() {
    Made& made = calls_.emplace_back();
    const VerifiedPlan plan = make_call(made);
    const auto agreement = static_cast<uint32_t>(calls_.size() * kTimes);
    const int odd = pick(0, ranks_ - 1);
    for (int rank = 0; rank < ranks_; ++rank) {
      const CopyProgram program = make_copy_program(plan, made.call, rank);
      for (const CopyQueue& queue : program.reduce ? program.reduce->barriers : program.queues) {
        const BarrierQueue& before = queue.before;
        if (before.count == 0 || (rank != odd && before.peer != odd)) continue;
        affected_.insert(rank);
        const bool takes = std::any_of(before.operations, before.operations + before.count,
                                       [](const BarrierOperation& it) { return it.kind == OpKind::kWait; });
        if (takes) add_refusal(rank, before.peer, made.buffers[static_cast<size_t>(rank)].get());
      }
      add_launches(made, program, rank, 0, rank == odd ? agreement + 1 : agreement);
    }
  }

  // Adds zero-copy messages among some ranks, so that each sends and receives one at most. They are made several times
  // with other data in the same buffers; or once, and then one rank sends another message than its peer receives.
  void add_messages(bool one_is_different = false) {
    std::vector<int> ring;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (pick(0, 3) > 0) ring.push_back(rank);
    }
    std::shuffle(ring.begin(), ring.end(), random_);
    const bool is_open = pick(0, 1) == 0;  // the last rank does not send, and the first one does not receive
    if (ring.size() < 2) return;
    const Call call{Collective::kBroadcast, DataType::kUint8, ReduceOp::kSum, 0, static_cast<size_t>(pick(1, 900))};
    Made& made = calls_.emplace_back();
    made.call = call;
    for (int rank = 0; rank < ranks_; ++rank) {
      test::BufferLayout layout;
      layout.input_offset = static_cast<size_t>(pick(0, 17));
      layout.output_offset = static_cast<size_t>(pick(0, 17));
      made.buffers.push_back(std::make_unique<test::CallBuffers>(call, ranks_, 0, layout));
      watch(*made.buffers.back(), rank);
      made.inputs.push_back(static_cast<const std::byte*>(made.buffers.back()->input()));
    }
    const size_t last_sender = ring.size() - (is_open ? 2 : 1);
    const size_t odd = one_is_different ? static_cast<size_t>(pick(0, static_cast<int>(last_sender))) : ring.size();
    for (int time = 0; time < (one_is_different ? 1 : kTimes); ++time) {
      const auto agreement = static_cast<uint64_t>(calls_.size() * kTimes + static_cast<size_t>(time));
      for (size_t i = 0; i < ring.size(); ++i) {
        const int rank = ring[i], next = ring[(i + 1) % ring.size()];
        const bool sends = !is_open || i + 1 < ring.size(), receives = !is_open || i > 0;
        Messages messages;
        messages.copies.by_one_kernel = receives && pick(0, 1) == 0;  // a rank that only sends uses barrier kernels
        if (sends) messages.add(sending_queue(next, receives), agreement + ring.size() * 1000 + i + (i == odd ? 1 : 0));
        const size_t before = (i + ring.size() - 1) % ring.size();
        const int from = ring[before];
        if (receives) {
          messages.add(receiving_queue(from, call.count, messages.copies.by_one_kernel),
                       agreement + ring.size() * 1000 + before);
        }
        if (receives && before == odd) {
          affected_.insert({rank, from});
          // Copy engines go on all the same, and so does the second barrier.
          const bool stops = messages.copies.by_one_kernel;
          add_refusal(rank, from, stops ? made.buffers[static_cast<size_t>(rank)].get() : nullptr);
          if (!stops) add_refusal(from, rank, nullptr);
        }
        add_launches(made, messages, rank, receives ? from : -1, time);
      }
    }
  }

  // Every rank that was to copy from another call has reported that and copied nothing; no other rank has reported it.
  void check_refusals() const {
    std::set<std::pair<int, int>> said;
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::vector<ChannelFailure> reports = reports_of(static_cast<size_t>(rank));
      const bool is_right = !affected_.contains(rank) && wrong_of(static_cast<size_t>(rank)) == 0;
      EXPECT_TRUE(is_right || !reports.empty()) << "rank " << rank;
      for (const ChannelFailure& report : reports) {
        if (report.state != ChannelFailure::kOtherCall) continue;
        said.insert({rank, report.peer});
        EXPECT_EQ(report.seen_epoch, report.expected_epoch);
      }
    }
    EXPECT_EQ(said, refusals_);
    for (const test::CallBuffers* buffers : untouched_) EXPECT_NO_THROW(buffers->require_untouched());
  }
  int refusals() const { return static_cast<int>(refusals_.size()); }

  uint64_t wrong() const { return std::accumulate(wrong_.begin(), wrong_.end(), uint64_t{0}); }
  uint64_t wrong_of(size_t rank) const { return wrong_[rank]; }
  int checked() const { return checked_; }
  int messages() const { return messages_; }
  int aligned_reduces() const { return aligned_; }
  int unaligned_reduces() const { return unaligned_; }

 private:
  struct Made {
    Call call;
    std::vector<std::unique_ptr<test::CallBuffers>> buffers;
    std::vector<const std::byte*> inputs, outputs;
  };

  // Makes a random call with its buffers.
  VerifiedPlan make_call(Made& made) {
    const auto type = static_cast<DataType>(pick(0, kDataTypeCount - 1));
    made.call = {kPulled[pick(0, std::size(kPulled) - 1)], type, ReduceOp::kSum, 0, static_cast<size_t>(pick(1, 900))};
    if (reduces(made.call.collective)) made.call.op = test::any_of(random_, reductions_of(type));
    if (has_root(made.call.collective)) made.call.root = pick(0, ranks_ - 1);
    AlgorithmArguments arguments;
    arguments.collective = made.call.collective;
    arguments.ranks = ranks_;
    arguments.root = made.call.root;
    arguments.engine = Engine::kSm;
    arguments.access = Access::kZeroCopy;
    make_buffers(made);
    return verify(make_plan("flat(load, zero_copy)", arguments));
  }

  // Expects `rank` to report that `peer` makes another call, and not to touch `buffers`.
  void add_refusal(int rank, int peer, const test::CallBuffers* buffers) {
    refusals_.insert({rank, peer});
    if (buffers != nullptr) untouched_.insert(buffers);
  }

  void make_buffers(Made& made) {
    const bool in_place = made.call.collective != Collective::kAllToAll && pick(0, 2) == 0;
    const size_t element = size_of(made.call.type);
    // Anywhere in a line; for some calls only at vectors.
    const size_t unit = pick(0, 1) == 0 ? kVectorBytes : element;
    const auto any_offset = [&] {
      return unit * static_cast<size_t>(pick(0, static_cast<int>(kLinkLineBytes / unit) - 1));
    };
    for (int rank = 0; rank < ranks_; ++rank) {
      test::BufferLayout layout;
      layout.in_place = in_place && has_input(made.call, rank) && has_output(made.call, rank);
      layout.input_offset = any_offset();
      layout.output_offset = any_offset();
      made.buffers.push_back(std::make_unique<test::CallBuffers>(made.call, ranks_, rank, layout));
      watch(*made.buffers.back(), rank);
      made.inputs.push_back(static_cast<const std::byte*>(made.buffers.back()->input()));
      made.outputs.push_back(static_cast<const std::byte*>(made.buffers.back()->output()));
    }
  }

  // The messages of one rank.
  struct Messages {
    CopyQueues copies;
    std::vector<uint64_t> agreements;
    void add(CopyQueue queue, uint64_t agreement) {
      copies.queues.push_back(std::move(queue));
      agreements.push_back(agreement);
    }
  };

  // As below, for messages: the sender sends what it would broadcast. `from` -1: the rank receives nothing.
  void add_launches(Made& made, const Messages& messages, int rank, int from, int time) {
    const auto r = static_cast<size_t>(rank);
    test::CallBuffers& buffers = *made.buffers[r];
    const auto sent_by = [call = made.call](int sender) {
      Call it = call;
      it.root = sender;
      return it;
    };
    const size_t stream = r + static_cast<size_t>(ranks_);  // concurrent with calls, as in forks of a graph
    machine_.launch(stream, {1}, {1}, [this, sent_by, rank, time, &buffers] {
      std::memset(buffers.output(), 0xee, buffers.output_bytes());
      fill_input(sent_by(rank), ranks_, rank, time, buffers.input());
      buffers.remember();
      note_stores(sent_by(rank), rank, buffers);
    });
    messages.copies.by_one_kernel ? add_kernel(made, messages, rank, stream) : add_engine(made, messages, rank, stream);
    machine_.launch(stream, {1}, {1}, [this, sent_by, rank, from, time, &buffers] {
      if (from >= 0) {
        wrong_[static_cast<size_t>(rank)] += count_wrong(sent_by(from), ranks_, rank, time, buffers.output());
        Simt::loads(buffers.output(), buffers.output_bytes());
        ++messages_;
      }
      EXPECT_NO_THROW(buffers.require_untouched_surroundings()) << "messages, rank " << rank;
    });
  }

  // Adds copies by SMs.
  void add_kernel(const Made& made, const Messages& messages, int rank, size_t stream) {
    const auto r = static_cast<size_t>(rank);
    BarrierCopyLaunch launch = {};
    fill(launch, rank);
    auto* const output = static_cast<std::byte*>(made.buffers[r]->output());
    BarrierCopyGrid grid = prepare_copies(messages.copies, messages.agreements, made.inputs, output, ranks_, launch);
    grid.ctas += static_cast<unsigned>(pick(0, 2));
    machine_.launch(stream, {grid.ctas, grid.rows}, {2 * kWarpThreads}, [launch] { run_barrier_copy(launch); });
  }

  // Adds copies as by copy engines, between two barrier kernels.
  void add_engine(const Made& made, const Messages& messages, int rank, size_t stream) {
    add_barrier(messages, &CopyQueue::before, rank, stream);
    auto* const output = static_cast<std::byte*>(made.buffers[static_cast<size_t>(rank)]->output());
    for (const CopyQueue& queue : messages.copies.queues) {
      for (const PlacedCopy& copy : place(queue, made.inputs, output)) {
        machine_.launch(stream, {1}, {1}, [copy] { Simt::copy(copy.to, copy.from, copy.bytes); });
      }
    }
    add_barrier(messages, &CopyQueue::after, rank, stream);
  }
  void add_barrier(const Messages& messages, BarrierQueue CopyQueue::* barrier, int rank, size_t stream) {
    BarrierLaunch launch = {};
    fill(launch, rank);
    const unsigned queues = prepare_barriers(messages.copies, barrier, messages.agreements, launch);
    if (queues > 0) machine_.launch(stream, {1}, {queues * kWarpThreads}, [launch] { run_barrier(launch); });
  }

  void fill(BarrierEndpoint& end, int rank) {
    end.self = end_of(rank);
    end.state = &barriers_[static_cast<size_t>(rank)];
    end.failures = end.self.failures;
  }

  // Reports stores of the library's own code to the race detector, which cannot see them.
  void note_stores(const Call& call, int rank, test::CallBuffers& buffers) const {
    Simt::stores(buffers.output(), buffers.output_bytes());
    Simt::stores(buffers.input(), input_elements(call, ranks_, rank) * size_of(call.type));
  }

  // Fills the input, makes the call, and checks the output, in this order on the rank's stream.
  void add_launches(Made& made, const CopyProgram& program, int rank, int time, uint32_t agreement) {
    const auto r = static_cast<size_t>(rank);
    test::CallBuffers& buffers = *made.buffers[r];
    auto* const output = static_cast<std::byte*>(buffers.output());
    BarrierCopyLaunch launch = {};
    fill(launch, rank);
    const std::vector<uint64_t> agreements(program.queues.size(), agreement);
    const auto& sources = program.reduce ? made.outputs : made.inputs;
    BarrierCopyGrid grid = prepare_copies(program, agreements, sources, output, ranks_, launch);
    const bool has_work = grid.ctas > 0;
    EXPECT_TRUE(has_work || ranks_ == 1 || program.reduce);
    if (has_work) grid.ctas += static_cast<unsigned>(pick(0, 2));
    const Call call = made.call;
    machine_.launch(r, {1}, {1}, [this, call, rank, time, &buffers] {
      std::memset(buffers.output(), 0xee, buffers.output_bytes());
      if (has_input(call, rank)) fill_input(call, ranks_, rank, time, buffers.input());
      buffers.remember();
      note_stores(call, rank, buffers);
    });
    if (program.reduce) add_reduce(made, program, rank, agreement);
    if (has_work)
      machine_.launch(r, {grid.ctas, grid.rows}, {kWarpThreads * static_cast<unsigned>(std::max(ranks_ - 1, 1))},
                      [launch] { run_barrier_copy(launch); });
    machine_.launch(r, {1}, {1}, [this, call, rank, time, &buffers] {
      if (has_output(call, rank))
        wrong_[static_cast<size_t>(rank)] += count_wrong(call, ranks_, rank, time, buffers.output());
      Simt::loads(buffers.output(), buffers.output_bytes());
      EXPECT_NO_THROW(buffers.require_untouched_surroundings()) << to_text(call) << ", rank " << rank;
      ++checked_;
    });
  }

  void add_reduce(const Made& made, const CopyProgram& program, int rank, uint32_t agreement) {
    const auto r = static_cast<size_t>(rank);
    auto* const output = static_cast<std::byte*>(made.buffers[r]->output());
    BarrierReduceLaunch launch = {};
    fill(launch, rank);
    const unsigned ctas = prepare_reduce(*program.reduce, made.call, agreement, made.inputs, output, ranks_, launch) +
                          static_cast<unsigned>(pick(0, 2));
    const unsigned threads = kWarpThreads * static_cast<unsigned>(std::max(ranks_ - 1, pick(1, 3)));
    (is_all_aligned(launch) ? aligned_ : unaligned_) += 1;
    by_type(made.call.type, [&]<DataType type>() {
      is_all_aligned(launch)
          ? machine_.launch(r, {ctas}, {threads}, [launch] { run_barrier_reduce<type, true>(launch); })
          : machine_.launch(r, {ctas}, {threads}, [launch] { run_barrier_reduce<type, false>(launch); });
    });
  }

  std::vector<BarrierState> barriers_;
  std::deque<Made> calls_;
  std::vector<uint64_t> wrong_;  // wrong elements, by rank
  int checked_ = 0;
  int messages_ = 0;                 // received
  int aligned_ = 0, unaligned_ = 0;  // reduces
  std::set<int> affected_;           // ranks whose peer has another agreement
  std::set<std::pair<int, int>> refusals_;
  std::set<const test::CallBuffers*> untouched_;
};

TEST(BarrierCopiesOnCpu, RandomCallsInRandomOrders) {
  int aligned = 0, unaligned = 0;
  for (uint64_t seed = 1; seed <= test::shortened(60); ++seed) {
    const int ranks = 1 + static_cast<int>(seed % 5);
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(ranks, seed, UINT64_MAX);
    if (seed % 4 == 0) world.find_races();
    for (int call = 0; call < 6; ++call) world.add(ranks);
    ASSERT_NO_THROW(world.run());
    EXPECT_EQ(world.wrong(), 0u);
    EXPECT_EQ(world.checked(), 6 * kTimes * ranks);
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(world.failures_of(static_cast<size_t>(rank)), 0);
    aligned += world.aligned_reduces();
    unaligned += world.unaligned_reduces();
  }
  EXPECT_GT(aligned, test::shortened(20));
  EXPECT_GT(unaligned, test::shortened(20));
}

// Ranks exchange messages and make calls with all others at the same time, and neither disturbs the other.
TEST(BarrierCopiesOnCpu, MessagesDuringCalls) {
  int messages = 0;
  for (uint64_t seed = 1; seed <= test::shortened(60); ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 4);
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(ranks, seed, UINT64_MAX);
    if (seed % 5 == 0) world.find_races();
    for (int call = 0; call < 6; ++call) call % 3 == 0 ? world.add(ranks) : world.add_messages();
    ASSERT_NO_THROW(world.run());
    EXPECT_EQ(world.wrong(), 0u);
    EXPECT_EQ(world.checked(), 2 * kTimes * ranks);
    messages += world.messages();
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(world.failures_of(static_cast<size_t>(rank)), 0);
  }
  EXPECT_GT(messages, test::shortened(500));
}

// Waits are bounded, and report the missing rank: all launches end.
TEST(BarrierCopiesOnCpu, AMissingRankEndsAllWaits) {
  for (uint64_t seed = 1; seed <= test::shortened(6); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(3, seed, 5'000'000'000'000);  // 5000 turns
    world.add(3);
    for (int call = 0; call < 2; ++call) world.add(2);
    ASSERT_NO_THROW(world.run());
    EXPECT_GT(world.failures_of(0) + world.failures_of(1), 0);
    EXPECT_EQ(world.failures_of(2), 0);
  }
}

TEST(BarrierCopiesOnCpu, AnAbortEndsAllWaits) {
  World world(3, 1, UINT64_MAX);
  for (int call = 0; call < 2; ++call) world.add(2);
  world.abort_after(2000);
  ASSERT_NO_THROW(world.run());
  EXPECT_GT(world.failures_of(0) + world.failures_of(1), 0);
}

// The number of an agreement identifies the call that a signal belongs to.
TEST(BarrierCopiesOnCpu, DifferentCallsAreReported) {
  constexpr int kSeeds = test::kSanitized ? 12 : 36;
  int refusals[2] = {};
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 4);
    const bool sends = seed % 3 == 0;
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(ranks, seed, 1'000'000'000'000);  // 1000 turns
    world.add(ranks);
    sends ? world.add_messages(true) : world.add_different();
    ASSERT_NO_THROW(world.run());
    world.check_refusals();
    refusals[sends] += world.refusals();
  }
  EXPECT_GT(refusals[0], test::kSanitized ? 15 : 50);
  EXPECT_GT(refusals[1], test::kSanitized ? 2 : 8);
}

// A rank comes when the others are about to give up: some CTAs may give up while others go on.
TEST(BarrierCopiesOnCpu, WrongOutputsAreReported) {
  int gave_up = 0, went_well = 0;
  for (uint64_t seed = 1; seed <= test::shortened(400); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(2, seed, 1'000'000'000'000);  // 1000 turns
    world.add(2, static_cast<uint64_t>(world.pick(100, 400)));
    ASSERT_NO_THROW(world.run());
    for (size_t rank = 0; rank < 2; ++rank) {
      EXPECT_TRUE(world.wrong_of(rank) == 0 || world.failures_of(rank) > 0) << "rank " << rank;
    }
    ++(world.failures_of(0) + world.failures_of(1) > 0 ? gave_up : went_well);
  }
  EXPECT_GT(gave_up, test::shortened(20));
  EXPECT_GT(went_well, test::shortened(20));
}

}  // namespace
}  // namespace plait
