// Plans that can be performed with flags inside the data, and choices that cannot.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "plan/builder.hpp"
#include "plan/shape.hpp"
#include "support/algorithm_plans.hpp"
#include "support/gpu_choice.hpp"
#include "support/kernel_plans.hpp"
#include "support/seed.hpp"

namespace plait {
namespace {

bool carries(const std::string& algorithm, Collective collective, DataType type = DataType::kFloat32, int parts = 1) {
  return test::plan_of(algorithm, collective, 4, parts).can_carry_flags(type);
}

TEST(PlanShape, FlagsFitWhereRanksStoreAtOthersAndReadTheirOwn) {
  for (const char* algorithm : {"flat(store)", "one_shot(store)"}) {
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kInt8}) {
      EXPECT_TRUE(carries(algorithm, Collective::kAllReduce, type)) << algorithm << ", " << name(type);
    }
  }
  EXPECT_TRUE(carries("chain(store)", Collective::kBroadcast));
}

TEST(PlanShape, FlagsDoNotFitPartialSumsThatAreWiderThanTheType) {
  EXPECT_TRUE(carries("ring", Collective::kReduceScatter));
  EXPECT_FALSE(carries("ring", Collective::kReduceScatter, DataType::kBfloat16));
}

TEST(PlanShape, FlagsDoNotFitSeveralQueuesNorLoadsNorABarrier) {
  EXPECT_FALSE(carries("flat(store)", Collective::kAllReduce, DataType::kFloat32, 2));
  EXPECT_FALSE(carries("flat", Collective::kAllReduce));
  EXPECT_FALSE(carries("flat", Collective::kBarrier));
}

// Two parts of a message from rank 0, perhaps by way of its host memory, to rank 1, through `places` of that.
VerifiedPlan broadcast_through(int places, bool host = false) {
  PlanBuilder builder({"test", Collective::kBroadcast, 2, 0, 2});
  const QueueId from = builder.add_queue(0, Engine::kSm), to = builder.add_queue(1, Engine::kSm);
  const Place first = builder.take_scratch(1, places);
  for (int part = 0; part < 2; ++part) {
    Place source = input_of(0), place = first;
    if (host) {
      source = builder.take_host(0);
      builder.copy(from, source, input_of(0), part);
    }
    place.slot += part % places;
    builder.copy(from, place, source, part);
    builder.copy(from, output_of(0), input_of(0), part);
    builder.wait(builder.signal(from, to));
    builder.copy(to, output_of(1), place, part);
    builder.wait(builder.signal(to, from));
  }
  return verify(builder.finish());
}

TEST(PlanShape, FlagsFitScratchThatIsWrittenOnce) {
  EXPECT_TRUE(broadcast_through(2).can_carry_flags(DataType::kFloat32));
  EXPECT_FALSE(broadcast_through(1).can_carry_flags(DataType::kFloat32));
  EXPECT_FALSE(broadcast_through(2, true).can_carry_flags(DataType::kFloat32));
}

// Kernels of two-shot calls store all that they have at once.
TEST(PlanShape, FlagsFitResultsThatAreWrittenOnce) {
  Plan twice = broadcast_through(2).plan();
  auto& operations = twice.ranks[1].queues[0].operations;
  operations.push_back(Operation(operations[1]));
  EXPECT_FALSE(verify(twice).can_carry_flags(DataType::kFloat32));
}

// The same question, of a list of all that was written so far.
bool carries_flags_by_search(const Plan& plan) {
  std::vector<std::tuple<Buffer, int, int>> written;
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    const RankPlan& it = plan.ranks[rank];
    if (it.queues.size() != 1 || it.host_slots > 0) return false;
    for (const Operation& operation : it.queues[0].operations) {
      if (operation.kind != OpKind::kReduce) continue;
      for (const Place& from : operation.sources) {
        if (from.rank != rank) return false;
      }
      for (const Place& to : operation.destinations) {
        if (to.rank != rank && to.buffer != Buffer::kScratch) return false;
        for (int c = 0; c < operation.chunks; ++c) {
          const int first = to.buffer == Buffer::kScratch ? to.slot : operation.chunk;
          const std::tuple cell(to.buffer, to.rank, first + c);
          if (std::find(written.begin(), written.end(), cell) != written.end()) return false;
          written.push_back(cell);
        }
      }
    }
  }
  return plan.collective != Collective::kBarrier;
}

TEST(PlanShape, FlagsFitWhereASearchFindsNothingThatIsWrittenTwice) {
  test::Random random(test::run_seed());
  int fitting = 0, others = 0;
  for (const Algorithm& algorithm : algorithms()) {
    for (const Collective collective : algorithm.collectives) {
      AlgorithmArguments machine;
      machine.collective = collective;
      machine.ranks = static_cast<int>(test::between(random, 2, 9));
      machine.engine = Engine::kSm;
      for (const AlgorithmArguments& form : test::forms_of(algorithm, machine)) {
        Plan plan = algorithm.make(form);
        EXPECT_EQ(shape_of(plan).can_carry_flags, carries_flags_by_search(plan)) << plan.algorithm;
        // Once more, with one of its operations twice.
        auto& operations = test::any_of(random, plan.ranks).queues[0].operations;
        if (operations.empty()) continue;
        const size_t place = test::between(random, 0, operations.size() - 1);
        operations.push_back(Operation(operations[place]));
        const bool fits = carries_flags_by_search(plan);
        EXPECT_EQ(shape_of(plan).can_carry_flags, fits) << plan.algorithm << ", operation " << place << " twice";
        (fits ? fitting : others) += 1;
      }
    }
  }
  EXPECT_GT(fitting, 0);
  EXPECT_GT(others, 0);
}

TEST(PlanShape, CountsQueues) {
  EXPECT_EQ(test::plan_of("one_shot(store)", Collective::kAllReduce, 4).report().shape.queues, 1);
  EXPECT_EQ(test::plan_of("flat(store)", Collective::kAllReduce, 4, 2).report().shape.queues, 3);
  // Ranks may have different numbers of queues.
  PlanBuilder builder({"test", Collective::kBroadcast, 2, 0, 1});
  const QueueId from = builder.add_queue(0, Engine::kSm), to = builder.add_queue(1, Engine::kSm);
  builder.add_queue(1, Engine::kSm);
  const Place place = builder.take_scratch(1, 1);
  builder.copy(from, place, input_of(0), 0);
  builder.copy(from, output_of(0), input_of(0), 0);
  builder.wait(builder.signal(from, to));
  builder.copy(to, output_of(1), place, 0);
  builder.wait(builder.signal(to, from));
  const VerifiedPlan plan = verify(builder.finish());
  EXPECT_EQ(plan.report().shape.queues, 2);
  EXPECT_FALSE(plan.report().shape.has_one_queue);
  EXPECT_FALSE(plan.can_carry_flags(DataType::kFloat32));
}

TEST(PlanShape, ProtocolsThatDoNotFitBecomeSimple) {
  test::GpuQuery query;
  query.ranks = 4;
  query.bytes = 1 << 10;
  const auto protocol = [&query](Protocol wanted, const std::string& algorithm) {
    return test::choose_on_gpus(query, "all_reduce:" + algorithm, LaunchShape{wanted, 8, 256}).launch.protocol;
  };
  for (const Protocol it : {Protocol::kSimple, Protocol::kLl, Protocol::kLl128}) {
    EXPECT_EQ(protocol(it, "flat(store)"), it);
    EXPECT_EQ(protocol(it, "flat(load)"), Protocol::kSimple);
  }
  query.lines = false;
  EXPECT_EQ(protocol(Protocol::kLl128, "flat(store)"), Protocol::kSimple);
  EXPECT_EQ(protocol(Protocol::kLl, "flat(store)"), Protocol::kLl);
}

}  // namespace
}  // namespace plait
