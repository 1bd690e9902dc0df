// Two-shot calls: what all ranks send and receive together is the collective.
#include "runtime/cuda/lowering/two_shot_program.hpp"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "runtime/cuda/rank/cuda_rank.hpp"
#include "support/kernel_plans.hpp"

namespace plait {
namespace {

constexpr LaunchShape kShape{Protocol::kLl, 4, 512};

struct Made {
  QueueProgram queue;
  std::optional<TwoShotProgram> program;
};

// The ranks' blocks of memory are far apart.
std::byte* block_of(int rank) { return reinterpret_cast<std::byte*>(uint64_t{1 + static_cast<unsigned>(rank)} << 40); }

Made make(const std::string& algorithm, const Call& call, int ranks, int rank) {
  const VerifiedPlan plan = test::plan_of(algorithm, call.collective, ranks, 1, call.root);
  const BoundPlan bound = bind(plan, call, rank, CudaRank::limits(kShape, plan.plan()));
  std::vector<std::byte*> blocks;
  for (int r = 0; r < ranks; ++r) blocks.push_back(block_of(r));
  Made made;
  made.queue = make_queue_program(bound, call, rank, kShape.protocol);
  const LlProgram ll = make_ll_program(made.queue, kShape.protocol, call.type, blocks);
  made.program = make_two_shot_program(ll, made.queue.slices, call);
  return made;
}

// Does what the kernel does, a word at a time: all ranks send, then all receive. Elements are words.
class World {
 public:
  World(const std::string& algorithm, const Call& call, int ranks) : call_(call) {
    for (int rank = 0; rank < ranks; ++rank) {
      made_.push_back(make(algorithm, call, ranks, rank));
      std::vector<uint64_t>& input = inputs_.emplace_back(input_elements(call, ranks, rank));
      for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<uint64_t>(rank) * 100'000 + i;
      outputs_.emplace_back(output_elements(call, ranks, rank));
    }
  }

  bool is_two_shot() const {
    return std::all_of(made_.begin(), made_.end(), [](const Made& it) { return it.program.has_value(); });
  }

  // Advances each slice of each rank as soon as what it receives has been stored. All are done when this returns.
  void run() {
    struct Running {
      size_t rank;
      uint64_t slice;
      int phase = kSends;
    };
    std::vector<Running> running;
    for (size_t rank = 0; rank < made_.size(); ++rank) {
      for (uint64_t slice = 0; slice < made_[rank].queue.slices; ++slice) running.push_back({rank, slice});
    }
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (Running& it : running) {
        if (it.phase >= slice_of(it.rank, it.slice).phase_count || !can_run(it.rank, it.slice, it.phase)) continue;
        run(it.rank, it.slice, it.phase++);
        goes_on = true;
      }
    }
    for (const Running& it : running) EXPECT_EQ(it.phase, slice_of(it.rank, it.slice).phase_count) << "waits for ever";
  }

  const std::vector<uint64_t>& input(int rank) const { return inputs_[static_cast<size_t>(rank)]; }
  const std::vector<uint64_t>& output(int rank) const { return outputs_[static_cast<size_t>(rank)]; }

 private:
  static constexpr int kSends = -1;

  bool is_full(size_t rank, uint64_t number) const { return number + 1 < made_[rank].queue.slices; }
  const TwoShotSteps::Slice& slice_of(size_t rank, uint64_t number) const {
    const TwoShotSteps& steps = made_[rank].program->steps;
    return is_full(rank, number) ? steps.full : steps.last;
  }

  bool can_run(size_t rank, uint64_t number, int phase) const {
    const TwoShotSteps::Slice& slice = slice_of(rank, number);
    for (int place = 0; phase != kSends && place < slice.phases[phase].places; ++place) {
      const uint64_t from = slice.places[phase][place].addresses[TwoShotPlace::kReceive];
      for (uint32_t word = 0; is_flagged(from) && word < slice.received_extents[phase][place].words; ++word) {
        if (!ll_memory_.contains({without_flag(from), number, word})) return false;
      }
    }
    return true;
  }

  void run(size_t rank, uint64_t number, int phase) {
    const bool full = is_full(rank, number);
    const TwoShotSteps::Slice& slice = slice_of(rank, number);
    const TwoShotProgram& program = *made_[rank].program;
    if (program.is_one_step) {
      ASSERT_LE(slice.most.words << program.steps.group_shift, static_cast<unsigned>(kShape.threads));
    }
    for (uint32_t word = 0; word < slice.most.words; ++word) {
      const auto at = [&](int of, int place, TwoShotPlace::Field field) -> uint64_t* {
        return find(rank, full, of, static_cast<size_t>(place), field, number, word);
      };
      if (phase == kSends) {
        for (int place = 0; place < slice.sent; ++place) {
          if (word >= slice.sent_extents[place].words) continue;
          *at(0, place, TwoShotPlace::kSendTo) = *at(0, place, TwoShotPlace::kSend);
        }
        continue;
      }
      const TwoShotSteps::Phase& received = slice.phases[phase];
      const TwoShotSteps::Extent* const extents = slice.received_extents[phase];
      uint64_t sum = 0;
      for (int place = 0; place < received.places; ++place) {
        if (word >= extents[place].words) continue;
        const uint64_t value = *at(phase, place, TwoShotPlace::kReceive);
        sum += value;
        if (received.combined == 0) *at(phase, place, TwoShotPlace::kReceiveTo) = value;
      }
      for (int place = 0; place < received.results; ++place) {
        if (word < extents[place].words) *at(phase, place, TwoShotPlace::kReceiveTo) = sum;
      }
    }
  }

  // Null if the place has no such field.
  uint64_t* find(size_t rank, bool full, int phase, size_t place, TwoShotPlace::Field field, uint64_t slice,
                 uint32_t word) {
    const TwoShotProgram& program = *made_[rank].program;
    for (const TwoShotProgram::UserPlace& it : program.user_places) {
      if (it.full != full || it.phase != phase || it.place != place || it.field != field) continue;
      std::vector<uint64_t>& buffer = it.output ? outputs_[rank] : inputs_[rank];
      const uint64_t byte = it.offset + slice * made_[rank].queue.slice_bytes + word * sizeof(uint64_t);
      return &buffer.at(byte / sizeof(uint64_t));
    }
    const uint64_t address = (full ? program.steps.full : program.steps.last).places[phase][place].addresses[field];
    if (address == 0) return nullptr;
    EXPECT_TRUE(is_flagged(address));
    return &ll_memory_[{without_flag(address), slice, word}];
  }

  const Call call_;
  std::vector<Made> made_;
  std::vector<std::vector<uint64_t>> inputs_, outputs_;
  std::map<std::tuple<uint64_t, uint64_t, uint32_t>, uint64_t> ll_memory_;
};

// The right output of `rank`.
std::vector<uint64_t> expected(const World& world, const Call& call, int ranks, int rank) {
  std::vector<uint64_t> result(output_elements(call, ranks, rank));
  for (size_t i = 0; i < result.size(); ++i) {
    const auto from = static_cast<int>(i / call.count);  // if there is a block from each rank
    const size_t in_block = i % call.count;
    const size_t block = static_cast<size_t>(rank) * call.count;
    switch (call.collective) {
      case Collective::kAllReduce:
      case Collective::kReduce:
        for (int r = 0; r < ranks; ++r) result[i] += world.input(r)[i];
        break;
      case Collective::kReduceScatter:
        for (int r = 0; r < ranks; ++r) result[i] += world.input(r)[block + i];
        break;
      case Collective::kBroadcast:
        result[i] = world.input(call.root)[i];
        break;
      case Collective::kScatter:
        result[i] = world.input(call.root)[block + i];
        break;
      case Collective::kAllGather:
      case Collective::kGather:
        result[i] = world.input(from)[in_block];
        break;
      case Collective::kAllToAll:
        result[i] = world.input(from)[block + in_block];
        break;
      case Collective::kBarrier:
        break;
    }
  }
  return result;
}

TEST(TwoShotProgram, AllRanksTogetherPerformTheCollective) {
  for (const auto& [algorithm, collective] : {std::pair{"one_shot(store)", Collective::kAllReduce},
                                              {"one_shot(store)", Collective::kReduce},
                                              {"one_shot(store)", Collective::kBroadcast},
                                              {"flat(store)", Collective::kReduceScatter},
                                              {"flat(store)", Collective::kAllGather},
                                              {"flat(store)", Collective::kGather},
                                              {"flat(store)", Collective::kScatter},
                                              {"flat(store)", Collective::kAllToAll}}) {
    for (const int ranks : {2, 3, 4, 8}) {
      for (const size_t count : {1, 31, 64, 100}) {
        const Call call{collective, DataType::kUint64, ReduceOp::kSum, ranks - 1, count};
        World world(algorithm, call, ranks);
        ASSERT_TRUE(world.is_two_shot()) << to_text(call) << " over " << ranks;
        world.run();
        for (int rank = 0; rank < ranks; ++rank) {
          EXPECT_EQ(world.output(rank), expected(world, call, ranks, rank)) << to_text(call) << " over " << ranks;
        }
      }
    }
  }
}

// Chunks may differ in size.
TEST(TwoShotProgram, TwoSteps) {
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast}) {
    for (const int ranks : {3, 4, 8}) {
      for (const size_t count : {128, 300, 384, 500, 640, 1000}) {
        const Call call{collective, DataType::kUint64, ReduceOp::kSum, 1, count};
        World world("flat(store)", call, ranks);
        ASSERT_TRUE(world.is_two_shot()) << to_text(call) << " over " << ranks;
        world.run();
        for (int rank = 0; rank < ranks; ++rank) {
          EXPECT_EQ(world.output(rank), expected(world, call, ranks, rank)) << to_text(call) << " over " << ranks;
        }
      }
    }
  }
}

TEST(TwoShotProgram, OtherReductionsAreNotTwoShot) {
  const auto is_two_shot = [](const std::string& algorithm, const Call& call, int ranks) {
    return make(algorithm, call, ranks, 0).program.has_value();
  };
  const Call sum{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 64};
  EXPECT_TRUE(is_two_shot("one_shot(store)", sum, 4));
  for (int number = 0; number < kReduceOpCount; ++number) {
    const auto op = static_cast<ReduceOp>(number);
    if (op == ReduceOp::kSum) continue;
    Call other = sum;
    other.op = op;
    EXPECT_FALSE(is_two_shot("one_shot(store)", other, 4));
  }
}

TEST(TwoShotProgram, SaysWhetherPlacesAreAligned) {
  const auto program = [](const std::string& algorithm, const Call& call) {
    return make(algorithm, call, 4, 0).program.value();
  };
  Call call{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 64};
  EXPECT_TRUE(program("one_shot(store)", call).is_aligned);
  EXPECT_EQ(program("one_shot(store)", call).steps.last.most.bytes(), 256u);
  call.count = 63;  // half a word at the end
  EXPECT_FALSE(program("one_shot(store)", call).is_aligned);
  EXPECT_EQ(program("one_shot(store)", call).steps.last.most.bytes(), 252u);
  EXPECT_EQ(program("one_shot(store)", call).steps.last.received_extents[0][3].bytes(), 252u);
  call = {Collective::kAllGather, DataType::kInt8, ReduceOp::kSum, 0, 13};
  EXPECT_FALSE(program("flat(store)", call).is_aligned);
  EXPECT_EQ(program("flat(store)", call).steps.last.sent_extents[3].bytes(), 13u);
  call.count = 16;
  EXPECT_TRUE(program("flat(store)", call).is_aligned);
}

// If a rank forwards its output, the output has arrived in the same call. The kernel would load it too early.
TEST(TwoShotProgram, CallsThatForwardTheirOutputAreNotTwoShot) {
  constexpr uint64_t kLlAddress = ll_address(4096, 1);
  LlProgram program;
  LlStep step;
  step.words = 1;
  step.last_elements = 1;
  step.sources = step.destinations = 1;
  step.copies = step.last_word_is_full = true;
  program.steps = {step, step};
  program.last.count = program.full.count = 2;
  const Call call{Collective::kBroadcast, DataType::kUint64, ReduceOp::kSum, 0, 1};
  // Sends its input, receives its output.
  program.places = {{0, kLlAddress}, {kLlAddress, 0}};
  program.user_places = {{0, false, false, 0}, {1, true, true, 0}};
  EXPECT_TRUE(make_two_shot_program(program, 1, call).has_value());
  // Receives its output, and sends that on.
  program.places = {{kLlAddress, 0}, {0, kLlAddress}};
  program.user_places = {{0, true, true, 0}, {1, false, true, 0}};
  EXPECT_FALSE(make_two_shot_program(program, 1, call).has_value());
}

}  // namespace
}  // namespace plait
