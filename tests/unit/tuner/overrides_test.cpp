// PLAIT_ALGORITHM and what is chosen without it.
#include "tuner/overrides.hpp"

#include <gtest/gtest.h>

#include "plan/verifier.hpp"
#include "support/outcome.hpp"
#include "topology/machines.hpp"
#include "tuner/tuner.hpp"

namespace plait {
namespace {

void expect_refused(const std::string& text, const std::vector<std::string>& parts) {
  const test::Outcome outcome = test::outcome_of([&](int) { AlgorithmOverrides::parse(text); }, 0);
  EXPECT_EQ(test::objection(outcome, ErrorCode::kInvalidArgument, parts), "") << "'" << text << "'";
}

TEST(Overrides, NoneWhereNothingIsSaid) {
  const AlgorithmOverrides none = AlgorithmOverrides::parse("");
  for (int c = 0; c < kCollectiveCount; ++c) EXPECT_EQ(none.find(static_cast<Collective>(c), 0), nullptr);
}

TEST(Overrides, NamesAndParameters) {
  const AlgorithmOverrides overrides =
      AlgorithmOverrides::parse("all_reduce:hierarchical_ring(4x2x3),broadcast:chain(8),reduce:binomial");
  const AlgorithmOverrides::Entry* all_reduce = overrides.find(Collective::kAllReduce, 0);
  ASSERT_NE(all_reduce, nullptr);
  EXPECT_EQ(all_reduce->spec.name, "hierarchical_ring");
  EXPECT_EQ(all_reduce->spec.factors, (std::vector<int>{4, 2, 3}));
  EXPECT_EQ(all_reduce->spec.parts, 0);
  const AlgorithmOverrides::Entry* broadcast = overrides.find(Collective::kBroadcast, 1 << 20);
  ASSERT_NE(broadcast, nullptr);
  EXPECT_EQ(broadcast->spec.name, "chain");
  EXPECT_EQ(broadcast->spec.parts, 8);
  EXPECT_TRUE(broadcast->spec.factors.empty());
  ASSERT_NE(overrides.find(Collective::kReduce, 0), nullptr);
  EXPECT_EQ(overrides.find(Collective::kReduce, 0)->spec.parts, 0);
  EXPECT_EQ(overrides.find(Collective::kAllGather, 0), nullptr);
  EXPECT_EQ(AlgorithmOverrides::parse("all_reduce:hierarchical_ring(6)").find(Collective::kAllReduce, 0)->spec.factors,
            std::vector<int>{6});
}

TEST(Overrides, HowMessagesGo) {
  EXPECT_FALSE(AlgorithmOverrides::parse("all_reduce:ring").for_messages());
  const auto messages = [](const char* text) { return AlgorithmOverrides::parse(text).for_messages().value(); };
  EXPECT_EQ(messages("send_receive:push").direct, std::nullopt);
  EXPECT_EQ(messages("send_receive:pull,all_reduce:ring").direct, Engine::kCopy);
  EXPECT_EQ(messages("send_receive:pull(copy)").direct, Engine::kCopy);
  EXPECT_EQ(messages("send_receive:pull(sm)").direct, Engine::kSm);
  EXPECT_TRUE(messages("send_receive:push").insists);
  for (const char* wrong : {"send_receive:", "send_receive:ring", "send_receive:pull(cpu)", "send_receive:pull(sm"}) {
    const auto parse = [&](int) { AlgorithmOverrides::parse(wrong); };
    EXPECT_EQ(test::objection(test::outcome_of(parse, 0), ErrorCode::kInvalidArgument, {"push, pull"}), "") << wrong;
  }
}

// As plans have it in their names.
TEST(Overrides, NamesOfPlans) {
  const AlgorithmOverrides overrides = AlgorithmOverrides::parse(
      "all_reduce:hierarchical_ring(4x2, pipeline 3),broadcast:chain(pipeline 2),reduce:push(2)");
  EXPECT_EQ(overrides.find(Collective::kAllReduce, 0)->spec.factors, (std::vector<int>{4, 2}));
  EXPECT_EQ(overrides.find(Collective::kAllReduce, 0)->spec.parts, 3);
  EXPECT_EQ(overrides.find(Collective::kBroadcast, 0)->spec.parts, 2);
  EXPECT_EQ(overrides.find(Collective::kReduce, 0)->spec.parts, 2);
}

TEST(Overrides, RangesOfSizes) {
  const auto overrides = AlgorithmOverrides::parse(
      "all_reduce:0-64K=one_shot,64K-8M=hierarchical_ring(3x2),8M-=nvgroup_ring(parts=4),bcast:1M-=chain");
  const auto name_at = [&](Collective collective, size_t bytes) {
    const AlgorithmOverrides::Entry* entry = overrides.find(collective, bytes);
    return entry == nullptr ? std::string("free") : to_text(entry->spec);
  };
  EXPECT_EQ(name_at(Collective::kAllReduce, 0), "one_shot");
  EXPECT_EQ(name_at(Collective::kAllReduce, (64 << 10) - 1), "one_shot");
  EXPECT_EQ(name_at(Collective::kAllReduce, 64 << 10), "hierarchical_ring(3x2)");
  EXPECT_EQ(name_at(Collective::kAllReduce, 8 << 20), "nvgroup_ring(parts=4)");
  EXPECT_EQ(name_at(Collective::kAllReduce, SIZE_MAX), "nvgroup_ring(parts=4)");
  EXPECT_EQ(name_at(Collective::kBroadcast, (1 << 20) - 1), "free");
  EXPECT_EQ(name_at(Collective::kBroadcast, 1 << 20), "chain");
  expect_refused("all_reduce:0-64K=one_shot,32K-1M=ring", {"'all_reduce' of 32768 bytes is there twice"});
  expect_refused("all_reduce:64K-1K=ring", {"no range of sizes"});
  expect_refused("all_reduce:64K=ring", {"no range of sizes", "64K-8M"});
  expect_refused("all_reduce:0-64Q=ring", {"no range of sizes"});
  expect_refused("0-64K=ring", {"before any collective"});
  expect_refused("all_reduce:0-64K=recursive_doubling(3x2)", {"recursive_doubling"});
}

Tuner tuner_of(const char* text, int ranks, bool is_for_gpus) {
  Settings settings;
  settings.algorithm = text;
  Topology host = select(machine("kesch"), {});
  return Tuner(place_on(host, ranks, settings), settings, {}, is_for_gpus);
}

TEST(Overrides, WhatRanksCannotDoIsRefused) {
  const auto refusal = [](const char* text, int ranks, bool is_for_gpus) {
    return test::outcome_of([&](int) { tuner_of(text, ranks, is_for_gpus); }, 0);
  };
  const auto expect_refused_as = [&](const char* text, const std::vector<std::string>& words) {
    EXPECT_EQ(test::objection(refusal(text, 3, false), ErrorCode::kInvalidArgument, words), "") << text;
  };
  expect_refused_as("all_reduce:pull", {"PLAIT_ALGORITHM is 'all_reduce:pull'", "only GPUs"});
  expect_refused_as("all_reduce:hierarchical_ring(5x7)", {"PLAIT_ALGORITHM", "5x7"});
  EXPECT_EQ(refusal("all_reduce:pull", 3, true).end, test::Outcome::End::kReturned);
  EXPECT_EQ(refusal("all_reduce:ring,send_receive:pull", 3, false).end, test::Outcome::End::kReturned);
}

TEST(Overrides, NamesAreTakenAsTheFieldWritesThem) {
  const auto overrides = AlgorithmOverrides::parse("AllReduce:One-Shot,bcast:Chain(3),sendrecv:push");
  EXPECT_EQ(overrides.find(Collective::kAllReduce, 0)->spec.name, "one_shot");
  EXPECT_EQ(overrides.find(Collective::kBroadcast, 0)->spec.name, "chain");
  expect_refused("allreduce:ring,all_reduce:flat", {"is there twice"});
  expect_refused("all_reduce:rng", {"did you mean 'ring'?"});
}

TEST(Overrides, BadTexts) {
  expect_refused("all_reduce:ring,all_reduce:flat", {"PLAIT_ALGORITHM", "'all_reduce' is there twice"});
  expect_refused("send_receive:push,send_receive:pull", {"'send_receive' is there twice"});
  expect_refused("all_reduce:magic", {"PLAIT_ALGORITHM is 'all_reduce:magic'"});
  expect_refused("all_reduce:push(x)", {"'x'", "push(x)"});
  expect_refused("all_reduce:push(2, )", {"push(2, )"});
  expect_refused("ring", {"'ring'", "collective:algorithm"});
  expect_refused(",", {"collective:algorithm"});
  expect_refused("all_reduce:ring,,broadcast:chain", {"collective:algorithm"});
  expect_refused("all_reduce:", {"one_shot", "ring"});
  expect_refused(":ring", {"all_reduce"});
  expect_refused("everything:ring", {"everything", "all_reduce"});
  expect_refused("all_reduce:magic", {"magic", "one_shot", "ring"});
  expect_refused("all_reduce: ring", {" ring"});
  expect_refused("broadcast:ring", {"ring does not serve broadcast", "chain"});
  expect_refused("broadcast:chain(", {"chain("});
  expect_refused("broadcast:chain()", {"chain()", "parts=2"});
  expect_refused("broadcast:chain(2", {"chain(2"});
  expect_refused("broadcast:chain(2)x", {"chain(2)x"});
  expect_refused("broadcast:chain(two)", {"two", "positive number"});
  expect_refused("broadcast:chain(0)", {"'0'", "positive number"});
  expect_refused("broadcast:chain(-3)", {"'-3'"});
  expect_refused("broadcast:chain(+3)", {"'+3'"});
  expect_refused("broadcast:chain(3.5)", {"'3.5'"});
  expect_refused("broadcast:chain(99999999999)", {"99999999999"});
  expect_refused("broadcast:chain(2x3)", {"no levels", "2x3"});
  expect_refused("all_reduce:hierarchical_ring(4x)", {"4x"});
  expect_refused("all_reduce:hierarchical_ring(x4)", {"x4"});
  expect_refused("all_reduce:hierarchical_ring(4xx2)", {"4xx2"});
}

TEST(Tuner, WhatIsAskedForWins) {
  Tuner tuner = tuner_of("all_reduce:ring(3)", 5, false);
  const Choice choice = tuner.choose({Collective::kAllReduce, 4});
  EXPECT_EQ(choice.plan.text(), "ring(parts=3)");
  EXPECT_EQ(choice.plan.arguments.ranks, 5);
  EXPECT_NE(choice.plan.reason.find("ring(3)"), std::string::npos);
}

// Whatever is chosen can be run: a right plan for processes of one host.
TEST(Tuner, EveryChoiceOnAHostIsARunnablePlan) {
  for (const int ranks : {1, 2, 3, 8}) {
    for (const bool is_for_gpus : {false, true}) {
      Tuner tuner = tuner_of("", ranks, is_for_gpus);
      for (int c = 0; c < kCollectiveCount; ++c) {
        const auto collective = static_cast<Collective>(c);
        for (const size_t bytes : {size_t{0}, size_t{1}, size_t{8} << 10, (size_t{8} << 10) + 1, size_t{1} << 30}) {
          const Choice choice = tuner.choose({collective, bytes, ranks - 1});
          EXPECT_FALSE(choice.plan.reason.empty());
          const Plan& plan = tuner.plan(choice.plan)->plan();
          EXPECT_EQ(plan.collective, collective);
          EXPECT_EQ(plan.rank_count(), ranks);
          EXPECT_EQ(plan.access, Access::kStaged);
          EXPECT_EQ(plan.root, has_root(collective) ? ranks - 1 : 0);
        }
      }
    }
  }
}

// Of a communicator with GPUs that is asked for on those.
TEST(Tuner, LeavesToGpusWhatIsForGpus) {
  Tuner tuner = tuner_of("all_gather:pull,all_reduce:ring", 4, true);
  EXPECT_EQ(tuner.choose({Collective::kAllGather, 1 << 20}).plan.algorithm, "flat");
  EXPECT_EQ(tuner.choose({Collective::kAllReduce, 1 << 20}).plan.algorithm, "ring");
}

}  // namespace
}  // namespace plait
