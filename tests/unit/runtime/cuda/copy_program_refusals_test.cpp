// Plans that cannot become programs of copies, and why.
#include <gtest/gtest.h>

#include "algorithms/algorithm.hpp"
#include "plan/builder.hpp"
#include "runtime/cuda/zero_copy/copy_program.hpp"
#include "support/outcome.hpp"

namespace plait {
namespace {

AlgorithmArguments all_gather_of(int ranks, Engine engine, Access access) {
  AlgorithmArguments arguments;
  arguments.collective = Collective::kAllGather;
  arguments.ranks = ranks;
  arguments.engine = engine;
  arguments.access = access;
  return arguments;
}

constexpr size_t kCount = 17 * 320;

std::string objection_to(Plan plan, int rank, const std::vector<std::string>& parts) {
  const VerifiedPlan verified = verify(std::move(plan));
  const Call call{verified.plan().collective, DataType::kFloat32, ReduceOp::kSum, 0, kCount};
  const test::Outcome outcome = test::outcome_of([&](int) { make_copy_program(verified, call, rank); }, 0);
  std::vector<std::string> all = {join("on rank ", rank, ", which cannot be performed zero-copy")};
  all.insert(all.end(), parts.begin(), parts.end());
  return test::objection(outcome, ErrorCode::kInvalidPlan, all);
}

TEST(CopyProgramRefusals, PlansOfOtherForms) {
  AlgorithmArguments push = all_gather_of(3, Engine::kSm, Access::kStaged);
  EXPECT_EQ(objection_to(make_plan("flat(store)", push), 0, {"plan flat(store)", "a reduce of several places"}), "");
  push.collective = Collective::kAllReduce;
  EXPECT_EQ(objection_to(make_plan("flat(store)", push), 0, {"plan flat(store)"}), "");
  push.access = Access::kZeroCopy;
  EXPECT_EQ(objection_to(make_plan("flat(store)", push), 0, {"plan flat(store, zero_copy)"}), "");
  EXPECT_EQ(objection_to(make_plan("flat(load, zero_copy)", all_gather_of(3, Engine::kCpu, Access::kZeroCopy)), 0,
                         {"plan flat(load, zero_copy)", "a queue of engine cpu"}),
            "");
}

// A broadcast from rank 0 over `ranks` ranks. Tests add operations to rank 1's queue of copies.
class Pulling {
 public:
  explicit Pulling(int ranks = 2, int chunks = 2, Engine engine = Engine::kCopy)
      : chunks_(chunks), builder_({"test", Collective::kBroadcast, ranks, 0, chunks, Access::kZeroCopy}) {
    for (int rank = 0; rank < ranks; ++rank) queues.push_back(builder_.add_queue(rank, engine));
    for (int chunk = 0; chunk < chunks; ++chunk) {
      builder_.copy(builder_.add_queue(0, Engine::kSm), output_of(0), input_of(0), chunk);
    }
  }

  void tell(size_t from, size_t to) { builder_.wait(builder_.signal(queues[from], queues[to])); }
  void copy(size_t rank, int chunk) {
    const auto to = static_cast<int>(rank);
    builder_.copy(queues[rank], output_of(to), input_of(0), chunk);
  }
  void copy_all(size_t rank) {
    for (int chunk = 0; chunk < chunks_; ++chunk) copy(rank, chunk);
  }
  Plan finish() { return builder_.finish(); }
  PlanBuilder& builder() { return builder_; }

  std::vector<QueueId> queues;

 private:
  const int chunks_;
  PlanBuilder builder_;
};

TEST(CopyProgramRefusals, AQueueCopiesOnce) {
  Pulling together;
  together.tell(0, 1);
  together.copy_all(1);
  together.tell(1, 0);
  const VerifiedPlan plan = verify(together.finish());
  const CopyProgram program = make_copy_program(plan, {Collective::kBroadcast, DataType::kFloat32, {}, 0, kCount}, 1);
  ASSERT_EQ(program.queues.size(), 1u);
  ASSERT_EQ(program.queues[0].copies.size(), 2u);
  const DeviceCopy &first = program.queues[0].copies[0], &second = program.queues[0].copies[1];
  EXPECT_EQ(first.source_offset, 0u);
  EXPECT_EQ(first.output_offset, 0u);
  EXPECT_EQ(second.source_offset, first.bytes);
  EXPECT_EQ(second.output_offset, first.bytes);
  EXPECT_EQ(first.bytes + second.bytes, kCount * size_of(DataType::kFloat32));

  Pulling apart;
  apart.tell(0, 1);
  apart.copy(1, 0);
  apart.tell(1, 0);
  apart.copy(1, 1);
  apart.tell(1, 0);
  EXPECT_EQ(objection_to(apart.finish(), 1, {"copies again after it has signalled or waited"}), "");
}

TEST(CopyProgramRefusals, AQueueDealsWithOneRankInFewOperations) {
  Pulling several(3);
  several.tell(0, 1);
  several.tell(1, 2);  // and only then copies
  several.copy_all(1);
  several.copy_all(2);
  several.tell(1, 0);
  several.tell(2, 0);
  Plan plan = several.finish();
  EXPECT_EQ(objection_to(plan, 1, {"deals with several ranks"}), "");
  EXPECT_EQ(objection_to(plan, 0, {"deals with several ranks"}), "");

  for (const int signals : {BarrierQueue::kMostOperations, BarrierQueue::kMostOperations + 1}) {
    Pulling chatty;
    for (int i = 0; i < signals; ++i) chatty.tell(0, 1);
    chatty.copy_all(1);
    chatty.tell(1, 0);
    const std::string objection = objection_to(chatty.finish(), 1, {"a long run of signals and waits"});
    EXPECT_EQ(objection.empty(), signals > BarrierQueue::kMostOperations) << objection;
  }
}

// One kernel performs all queues or none, and has room for a limited number of copies.
TEST(CopyProgramRefusals, SmsDoNotCopyBetweenRanksBesideCopyEngines) {
  Pulling mixed(2, 1);
  mixed.queues.push_back(mixed.builder().add_queue(1, Engine::kSm));
  mixed.tell(0, 2);
  mixed.builder().copy(mixed.queues[2], output_of(1), input_of(0), 0);
  mixed.tell(2, 0);
  EXPECT_EQ(objection_to(mixed.finish(), 1, {"a copy between ranks by SMs, beside copies by copy engines"}), "");

  for (const int chunks : {kMostDeviceRanks, kMostDeviceRanks + 1}) {
    Pulling many(2, chunks, Engine::kSm);
    many.tell(0, 1);
    many.copy_all(1);
    many.tell(1, 0);
    const std::string objection = objection_to(many.finish(), 1, {"copies by SMs, more than one for each rank"});
    EXPECT_EQ(objection.empty(), chunks > kMostDeviceRanks) << objection;
  }
}

// A rank that gives up may go on with its copies, so they must not read data that may never be finished.
TEST(CopyProgramRefusals, OnlyInputsAreCopied) {
  Pulling onward(3, 1);
  onward.tell(0, 1);
  onward.copy_all(1);
  onward.tell(1, 2);
  onward.builder().copy(onward.queues[2], output_of(2), output_of(1), 0);
  onward.tell(2, 1);
  onward.tell(1, 0);
  EXPECT_EQ(objection_to(onward.finish(), 2, {"a copy from output"}), "");

  Pulling storing(2, 1);  // the root does it
  storing.tell(1, 0);
  storing.builder().copy(storing.queues[0], output_of(1), input_of(0), 0);
  storing.tell(0, 1);
  EXPECT_EQ(objection_to(storing.finish(), 0, {"memory that is not its output"}), "");
}

}  // namespace
}  // namespace plait
