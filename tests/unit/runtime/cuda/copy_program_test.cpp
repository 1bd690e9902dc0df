// Programs of copies and barriers, performed on the host: their results are right, and no rank waits for ever.
#include "runtime/cuda/zero_copy/copy_program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <set>

#include "algorithms/algorithm.hpp"
#include "runtime/queue_loop.hpp"
#include "support/seed.hpp"

namespace plait {
namespace {

using test::Random;
using Bytes = std::vector<std::byte>;

constexpr std::array kCollectives = {Collective::kBroadcast, Collective::kAllGather, Collective::kGather,
                                     Collective::kScatter, Collective::kAllToAll};

AlgorithmArguments arguments_of(Collective collective, int ranks, int root = 0) {
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = ranks;
  arguments.root = root;
  arguments.engine = Engine::kCopy;
  arguments.access = Access::kZeroCopy;
  return arguments;
}

// The programs of all ranks for one call.
struct Programs {
  Programs(const Call& its_call, int its_ranks) : call(its_call), ranks(its_ranks) {
    const VerifiedPlan plan =
        verify(make_plan("flat(load, zero_copy)", arguments_of(call.collective, ranks, call.root)));
    for (int rank = 0; rank < ranks; ++rank) of.push_back(make_copy_program(plan, call, rank));
  }

  Call call;
  int ranks;
  std::vector<CopyProgram> of;
};

Call random_call(Random& random, Collective collective, int ranks) {
  Call call;
  call.collective = collective;
  call.type = static_cast<DataType>(test::between(random, 0, kDataTypeCount - 1));
  call.root = has_root(collective) ? static_cast<int>(test::between(random, 0, static_cast<uint64_t>(ranks - 1))) : 0;
  constexpr std::array<uint64_t, 4> kMost = {2, 40, 1000, 20'000};
  call.count = test::between(random, 0, test::any_of(random, kMost));
  return call;
}

// ---- What a call requires, computed without a plan.

// How many blocks of `count` elements a rank's input and its output hold.
size_t input_blocks(const Call& call, int ranks, int rank) {
  if (!has_input(call, rank)) return 0;
  const bool one_for_each = call.collective == Collective::kScatter || call.collective == Collective::kAllToAll;
  return one_for_each ? static_cast<size_t>(ranks) : 1;
}
size_t output_blocks(const Call& call, int ranks, int rank) {
  if (!has_output(call, rank)) return 0;
  const bool one = call.collective == Collective::kBroadcast || call.collective == Collective::kScatter;
  return one ? 1 : static_cast<size_t>(ranks);
}

struct Block {
  int rank = 0;
  size_t index = 0;
};

// The rank and the block of its input that block `index` of the output of `rank` has to be.
Block origin(const Call& call, int rank, size_t index) {
  switch (call.collective) {
    case Collective::kBroadcast:
      return {call.root, 0};
    case Collective::kScatter:
      return {call.root, static_cast<size_t>(rank)};
    case Collective::kAllToAll:
      return {static_cast<int>(index), static_cast<size_t>(rank)};
    default:  // all_gather and gather
      return {static_cast<int>(index), 0};
  }
}

size_t block_bytes(const Call& call) { return call.count * size_of(call.type); }

std::vector<Bytes> random_inputs(Random& random, const Call& call, int ranks) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < ranks; ++rank) {
    inputs.emplace_back(input_blocks(call, ranks, rank) * block_bytes(call));
    for (std::byte& byte : inputs.back()) byte = static_cast<std::byte>(random());
  }
  return inputs;
}

Bytes demanded(const Call& call, int ranks, int rank, const std::vector<Bytes>& inputs) {
  Bytes output;
  for (size_t index = 0; index < output_blocks(call, ranks, rank); ++index) {
    const Block from = origin(call, rank, index);
    const auto begin =
        inputs[static_cast<size_t>(from.rank)].begin() + static_cast<std::ptrdiff_t>(from.index * block_bytes(call));
    output.insert(output.end(), begin, begin + static_cast<std::ptrdiff_t>(block_bytes(call)));
  }
  return output;
}

// ---- Copies.

void for_each_copy(const CopyProgram& program, const std::function<void(const CopyQueue&, const DeviceCopy&)>& body) {
  for (const CopyQueue& queue : program.queues) {
    for (const DeviceCopy& copy : queue.copies) body(queue, copy);
  }
}

void for_random_calls(const std::function<void(Random&, const Programs&)>& body) {
  Random random(test::run_seed());
  for (int round = 0; round < 10; ++round) {
    for (const Collective collective : kCollectives) {
      for (int ranks = 1; ranks <= 5; ++ranks) {
        const Call call = random_call(random, collective, ranks);
        SCOPED_TRACE(join(to_text(call), " over ", ranks, " ranks"));
        body(random, Programs(call, ranks));
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(CopyProgram, OutputsAreThoseOfTheCollective) {
  for_random_calls([](Random& random, const Programs& programs) {
    const std::vector<Bytes> inputs = random_inputs(random, programs.call, programs.ranks);
    for (int rank = 0; rank < programs.ranks; ++rank) {
      const CopyProgram& program = programs.of[static_cast<size_t>(rank)];
      const Bytes expected = demanded(programs.call, programs.ranks, rank, inputs);
      EXPECT_EQ(program.call, programs.call);
      ASSERT_EQ(program.input_bytes, inputs[static_cast<size_t>(rank)].size());
      ASSERT_EQ(program.output_bytes, expected.size());
      Bytes output(expected.size());
      std::vector<int> written(expected.size(), 0);
      for_each_copy(program, [&](const CopyQueue&, const DeviceCopy& copy) {
        const Bytes& input = inputs[static_cast<size_t>(copy.from_rank)];
        ASSERT_GT(copy.bytes, 0u);
        ASSERT_LE(copy.source_offset + copy.bytes, input.size());
        ASSERT_LE(copy.output_offset + copy.bytes, output.size());
        std::memcpy(output.data() + copy.output_offset, input.data() + copy.source_offset, copy.bytes);
        for (size_t i = 0; i < copy.bytes; ++i) ++written[copy.output_offset + i];
      });
      EXPECT_EQ(output, expected) << "rank " << rank;
      EXPECT_EQ(written, std::vector<int>(expected.size(), 1)) << "rank " << rank;
    }
  });
}

// If a rank's own block is in place, Copier skips its copy, so no rank disturbs another.
TEST(CopyProgram, InPlaceCopiesDoNotOverwriteWhatOthersRead) {
  for_random_calls([](Random& random, const Programs& programs) {
    const Call& call = programs.call;
    for (const CopyProgram& program : programs.of) {
      EXPECT_EQ(program.in_place, call.collective != Collective::kAllToAll || programs.ranks == 1);
    }
    if (!programs.of[0].in_place) return;
    const std::vector<Bytes> inputs = random_inputs(random, call, programs.ranks);
    std::vector<Bytes> buffers;  // of each rank, with input and output in them
    std::vector<size_t> input_at, output_at;
    for (int rank = 0; rank < programs.ranks; ++rank) {
      const size_t own = static_cast<size_t>(rank) * block_bytes(call);
      const bool gathers_blocks = gathers(call.collective) && has_output(call, rank);
      const bool scatters_blocks = scatters(call.collective) && has_input(call, rank);
      input_at.push_back(gathers_blocks ? own : 0);
      output_at.push_back(scatters_blocks ? own : 0);
      const Bytes& input = inputs[static_cast<size_t>(rank)];
      const size_t output_bytes = output_blocks(call, programs.ranks, rank) * block_bytes(call);
      Bytes buffer(std::max(input_at.back() + input.size(), output_at.back() + output_bytes));
      std::copy(input.begin(), input.end(), buffer.begin() + static_cast<std::ptrdiff_t>(input_at.back()));
      buffers.push_back(buffer);
    }
    std::vector<size_t> order(programs.of.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t rank : order) {
      for_each_copy(programs.of[rank], [&](const CopyQueue&, const DeviceCopy& copy) {
        const auto peer = static_cast<size_t>(copy.from_rank);
        const std::byte* const from = buffers[peer].data() + input_at[peer] + copy.source_offset;
        std::byte* const to = buffers[rank].data() + output_at[rank] + copy.output_offset;
        EXPECT_EQ(from == to, peer == rank);
        if (from != to) std::memcpy(to, from, copy.bytes);
      });
    }
    for (size_t rank = 0; rank < buffers.size(); ++rank) {
      const Bytes expected = demanded(call, programs.ranks, static_cast<int>(rank), inputs);
      const auto begin = buffers[rank].begin() + static_cast<std::ptrdiff_t>(output_at[rank]);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), begin)) << "rank " << rank;
    }
  });
}

TEST(CopyProgram, AKernelCopiesTheOwnBlockWithoutWaiting) {
  for_random_calls([](Random&, const Programs& programs) {
    std::set<int> senders;
    for (int rank = 0; rank < programs.ranks; ++rank) {
      for (const CopyQueue& queue : programs.of[static_cast<size_t>(rank)].queues) {
        EXPECT_EQ(queue.by_kernel, queue.before.count == 0);
        EXPECT_TRUE(!queue.by_kernel || queue.after.count == 0);
        for (const DeviceCopy& copy : queue.copies) {
          EXPECT_EQ(copy.from_rank, queue.by_kernel ? rank : queue.before.peer);
          if (copy.from_rank != rank) senders.insert(copy.from_rank);
        }
      }
    }
    for (int rank = 0; rank < programs.ranks && programs.call.count > 0; ++rank) {
      EXPECT_EQ(programs.of[static_cast<size_t>(rank)].input_is_read, senders.contains(rank)) << "rank " << rank;
    }
  });
}

// ---- Barriers.

// Ranks that perform the programs of one call after the other as Copier enqueues them: the barriers before the copies,
// for all queues at once; the copies; the barriers after them. advance() lets a rank do what it can without waiting.
class Machine {
 public:
  explicit Machine(int ranks) : ranks_(static_cast<size_t>(ranks)), progress_(ranks_), flags_(ranks_) {
    for (auto* counters : {&sent_, &awaited_, &flags_}) counters->assign(ranks_, std::vector<uint64_t>(ranks_, 0));
  }

  // False: it did nothing, because it waits or has done all calls.
  bool advance(size_t rank, const std::vector<Programs>& calls) {
    Progress& own = progress_[rank];
    if (own.call == calls.size()) return false;
    const std::vector<CopyQueue>& queues = calls[own.call].of[rank].queues;
    own.next.resize(queues.size(), 0);
    if (own.phase == Phase::kCopies) {
      for (const CopyQueue& queue : queues) expect_input(queue, rank);
      next_phase(own, Phase::kAfter);
      return true;
    }
    const bool before = own.phase == Phase::kBefore;
    bool all = true, moved = false;
    for (size_t i = 0; i < queues.size(); ++i) {
      const BarrierQueue& queue = before ? queues[i].before : queues[i].after;
      const int begin = own.next[i];
      Barrier barrier{*this, rank, queue.peer};
      all &= advance_queue(queue.operations, queue.count, own.next[i], barrier) == QueueState::kDone;
      moved |= own.next[i] > begin;
    }
    if (all) next_phase(own, before ? Phase::kCopies : Phase::kBefore);
    if (all && !before) ++own.call;
    return moved || all;
  }

  bool is_done(const std::vector<Programs>& calls) const {
    return std::all_of(progress_.begin(), progress_.end(),
                       [&](const Progress& progress) { return progress.call == calls.size(); });
  }

  // Every signal was awaited.
  void expect_nothing_left() const {
    for (size_t a = 0; a < ranks_; ++a) {
      for (size_t b = 0; b < ranks_; ++b) EXPECT_EQ(sent_[a][b], awaited_[b][a]) << "rank " << a << " to " << b;
    }
  }

 private:
  enum class Phase { kBefore, kCopies, kAfter };
  struct Progress {
    size_t call = 0;
    Phase phase = Phase::kBefore;
    std::vector<int> next;  // by queue
  };

  // As in barrier.cuh.
  struct Barrier {
    void reduce(const BarrierOperation&) const { ADD_FAILURE() << "a barrier moves no data"; }
    void signal(const BarrierOperation&) const { at.flags_[peer][rank] = ++at.sent_[rank][peer]; }
    bool wait(const BarrierOperation&) const {
      if (at.flags_[rank][peer] <= at.awaited_[rank][peer]) return false;
      ++at.awaited_[rank][peer];
      return true;
    }
    Machine& at;
    size_t rank, peer;
  };

  static void next_phase(Progress& progress, Phase phase) {
    progress.phase = phase;
    progress.next.clear();
  }

  // The rank that is read is in the same call: its buffer is ready, and still belongs to the call.
  void expect_input(const CopyQueue& queue, size_t rank) const {
    for (const DeviceCopy& copy : queue.copies) {
      EXPECT_EQ(progress_[static_cast<size_t>(copy.from_rank)].call, progress_[rank].call)
          << "rank " << rank << " copies from rank " << copy.from_rank << ", which is in another call";
    }
  }

  const size_t ranks_;
  std::vector<Progress> progress_;
  std::vector<std::vector<uint64_t>> sent_, awaited_, flags_;  // [rank][peer]; words: [at][from]
};

// Ranks advance in any order. In some runs, each goes as far as it can before another does anything.
TEST(CopyProgram, BarriersNeverDeadlockAndKeepSendersInTheCall) {
  Random random(test::run_seed());
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (int round = 0; round < 20; ++round) {
      std::vector<Programs> calls;
      for (int i = 0; i < 12; ++i)
        calls.emplace_back(random_call(random, test::any_of(random, kCollectives), ranks), ranks);
      Machine machine(ranks);
      const auto all = static_cast<size_t>(ranks);
      const bool greedy = round % 2 == 0;
      while (!machine.is_done(calls)) {
        const size_t first = random() % all;
        bool moved = false;
        for (size_t i = 0; i < all; ++i) {
          const size_t rank = (first + i) % all;
          while (machine.advance(rank, calls)) {
            moved = true;
            if (!greedy) break;
          }
          if (moved && !greedy) break;
        }
        ASSERT_TRUE(moved) << ranks << " ranks wait for each other";
      }
      machine.expect_nothing_left();
    }
  }
}

// A barrier counts signals by peer, and a launch has room for one queue per peer.
TEST(CopyProgram, BarriersHaveOneQueueForEachPeer) {
  for (const Collective collective : kCollectives) {
    for (const int ranks : {2, 5, kMostDeviceRanks}) {
      const Programs programs({collective, DataType::kFloat32, ReduceOp::kSum, 0, 100}, ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        for (const auto barrier : {&CopyQueue::before, &CopyQueue::after}) {
          std::set<int> peers;
          for (const CopyQueue& queue : programs.of[static_cast<size_t>(rank)].queues) {
            if ((queue.*barrier).count == 0) continue;
            EXPECT_NE((queue.*barrier).peer, rank);
            EXPECT_TRUE(peers.insert((queue.*barrier).peer).second) << name(collective) << ", rank " << rank;
          }
        }
      }
    }
  }
}

std::string kinds(const BarrierQueue& queue) {
  std::string text;
  for (int i = 0; i < queue.count; ++i) text += (i > 0 ? " " : "") + std::string(name(queue.operations[i].kind));
  return text;
}

TEST(CopyProgram, SignalsAndWaitsAreSplitAtTheCopies) {
  const auto first_queue = [](Collective collective, int rank) {
    return Programs({collective, DataType::kFloat32, ReduceOp::kSum, 0, 100}, 2)
        .of[static_cast<size_t>(rank)]
        .queues[0];
  };
  const CopyQueue both = first_queue(Collective::kAllGather, 1);
  EXPECT_EQ(kinds(both.before), "signal wait");
  EXPECT_EQ(kinds(both.after), "signal wait");
  const CopyQueue sends = first_queue(Collective::kBroadcast, 0), receives = first_queue(Collective::kBroadcast, 1);
  EXPECT_EQ(kinds(sends.before), "signal");  // copies in other queues wait for no rank
  EXPECT_EQ(kinds(sends.after), "wait");
  EXPECT_TRUE(sends.copies.empty());
  EXPECT_EQ(kinds(receives.before), "wait");
  EXPECT_EQ(receives.copies.size(), 1u);
  EXPECT_EQ(kinds(receives.after), "signal");
}

// ---- Reduces.

// Each rank combines its chunk of all inputs in rank order, with a barrier for every other rank.
void expect_reduce(const Programs& programs, int rank, size_t first_element, size_t elements, const char* after) {
  const CopyProgram& program = programs.of[static_cast<size_t>(rank)];
  ASSERT_TRUE(program.reduce);
  const DeviceReduce& reduce = *program.reduce;
  const size_t element = size_of(programs.call.type);
  EXPECT_EQ(reduce.elements, elements);
  EXPECT_EQ(reduce.divisor, divisor_of(programs.call.op, programs.ranks));
  ASSERT_EQ(reduce.sources.size(), static_cast<size_t>(programs.ranks));
  std::set<int> peers;
  for (int from = 0; from < programs.ranks; ++from) {
    EXPECT_EQ(reduce.sources[static_cast<size_t>(from)].rank, from);
    EXPECT_EQ(reduce.sources[static_cast<size_t>(from)].input_offset, first_element * element);
  }
  for (const CopyQueue& queue : reduce.barriers) {
    EXPECT_EQ(kinds(queue.before), "signal wait");
    EXPECT_EQ(kinds(queue.after), after);
    EXPECT_EQ(queue.before.peer, queue.after.peer);
    EXPECT_NE(queue.before.peer, rank);
    EXPECT_TRUE(queue.copies.empty());
    peers.insert(queue.before.peer);
  }
  EXPECT_EQ(peers.size(), static_cast<size_t>(programs.ranks - 1));
  EXPECT_TRUE(program.in_place);
  EXPECT_TRUE(program.input_is_read);
}

TEST(CopyProgram, ReduceScatterIsAReduce) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) {
    for (const int ranks : {2, 3, kMostDeviceRanks}) {
      const Programs programs({Collective::kReduceScatter, DataType::kFloat16, op, 0, 1001}, ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        const CopyProgram& program = programs.of[static_cast<size_t>(rank)];
        expect_reduce(programs, rank, static_cast<size_t>(rank) * 1001, 1001, "signal wait");
        EXPECT_EQ(program.reduce->output_offset, 0u);
        EXPECT_TRUE(program.queues.empty());
        EXPECT_TRUE(program.by_one_kernel);
        EXPECT_FALSE(program.output_is_read);
      }
    }
  }
}

TEST(CopyProgram, AllReduceIsAReduceAndCopies) {
  for (const int ranks : {2, 3, kMostDeviceRanks}) {
    const size_t each = 512;
    const size_t count = each * static_cast<size_t>(ranks) - 5;  // the last chunk is shorter
    const Programs programs({Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, count}, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      const CopyProgram& program = programs.of[static_cast<size_t>(rank)];
      const auto elements_of = [&](int owner) { return owner == ranks - 1 ? each - 5 : each; };
      ASSERT_TRUE(program.reduce);
      expect_reduce(programs, rank, static_cast<size_t>(rank) * each, elements_of(rank), "signal");
      EXPECT_EQ(program.reduce->output_offset, static_cast<size_t>(rank) * each * 4);
      EXPECT_FALSE(program.by_one_kernel);
      EXPECT_TRUE(program.output_is_read);
      ASSERT_EQ(program.queues.size(), static_cast<size_t>(ranks - 1));
      for (size_t l = 0; l < program.queues.size(); ++l) {
        const CopyQueue& queue = program.queues[l];
        const int owner = (rank + 1 + static_cast<int>(l)) % ranks;  // so that no two ranks begin with the same
        EXPECT_EQ(kinds(queue.before), "wait");
        EXPECT_EQ(kinds(queue.after), "signal wait");
        EXPECT_EQ(queue.before.peer, owner);
        EXPECT_FALSE(queue.by_kernel);
        ASSERT_EQ(queue.copies.size(), 1u);
        EXPECT_EQ(queue.copies[0].from_rank, owner);
        EXPECT_EQ(queue.copies[0].source_offset, static_cast<size_t>(owner) * each * 4);
        EXPECT_EQ(queue.copies[0].output_offset, static_cast<size_t>(owner) * each * 4);
        EXPECT_EQ(queue.copies[0].bytes, elements_of(owner) * 4);
      }
    }
  }
}

}  // namespace
}  // namespace plait
