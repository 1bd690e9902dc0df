// PLAIT_ALGORITHM and what is chosen without it.
#include "tuner/selection.hpp"

#include <gtest/gtest.h>

#include "plan/verifier.hpp"
#include "support/outcome.hpp"

namespace plait {
namespace {

void expect_refused(const std::string& text, const std::vector<std::string>& parts) {
  const test::Outcome outcome = test::outcome_of([&](int) { AlgorithmOverrides::parse(text); }, 0);
  EXPECT_EQ(test::objection(outcome, ErrorCode::kInvalidArgument, parts), "") << "'" << text << "'";
}

TEST(Overrides, NoneWhereNothingIsSaid) {
  const AlgorithmOverrides none = AlgorithmOverrides::parse("");
  for (int c = 0; c < kCollectiveCount; ++c) EXPECT_EQ(none.find(static_cast<Collective>(c)), nullptr);
}

TEST(Overrides, NamesAndParameters) {
  const AlgorithmOverrides overrides =
      AlgorithmOverrides::parse("all_reduce:hierarchical_ring(4x2x3),broadcast:chain(8),reduce:binomial");
  const Choice* all_reduce = overrides.find(Collective::kAllReduce);
  ASSERT_NE(all_reduce, nullptr);
  EXPECT_EQ(all_reduce->algorithm, "hierarchical_ring");
  EXPECT_EQ(all_reduce->arguments.factors, (std::vector<int>{4, 2, 3}));
  EXPECT_EQ(all_reduce->asked.parts, 0);
  const Choice* broadcast = overrides.find(Collective::kBroadcast);
  ASSERT_NE(broadcast, nullptr);
  EXPECT_EQ(broadcast->algorithm, "chain");
  EXPECT_EQ(broadcast->arguments.parts, 8);
  EXPECT_TRUE(broadcast->arguments.factors.empty());
  ASSERT_NE(overrides.find(Collective::kReduce), nullptr);
  EXPECT_EQ(overrides.find(Collective::kReduce)->arguments.parts, 1);
  EXPECT_EQ(overrides.find(Collective::kAllGather), nullptr);
  EXPECT_EQ(
      AlgorithmOverrides::parse("all_reduce:hierarchical_ring(6)").find(Collective::kAllReduce)->arguments.factors,
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
  EXPECT_EQ(overrides.find(Collective::kAllReduce)->arguments.factors, (std::vector<int>{4, 2}));
  EXPECT_EQ(overrides.find(Collective::kAllReduce)->arguments.parts, 3);
  EXPECT_EQ(overrides.find(Collective::kBroadcast)->arguments.parts, 2);
  EXPECT_EQ(overrides.find(Collective::kReduce)->arguments.parts, 2);
}

TEST(Overrides, WhatRanksCannotDoIsRefused) {
  const auto refusal = [](const char* text, int ranks, bool beside_gpus) {
    const AlgorithmOverrides overrides = AlgorithmOverrides::parse(text);
    return test::outcome_of([&](int) { overrides.check(ranks, beside_gpus); }, 0);
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
  EXPECT_EQ(overrides.find(Collective::kAllReduce)->algorithm, "one_shot");
  EXPECT_EQ(overrides.find(Collective::kBroadcast)->algorithm, "chain");
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

TEST(Selection, WhatIsAskedForWins) {
  const AlgorithmOverrides overrides = AlgorithmOverrides::parse("all_reduce:ring(3)");
  const Choice choice = select_for_host({Collective::kAllReduce, 4, 5, 0}, overrides);
  EXPECT_EQ(choice.algorithm, "ring");
  EXPECT_EQ(choice.arguments.parts, 3);
  EXPECT_EQ(choice.arguments.ranks, 5);
  EXPECT_NE(choice.reason.find("ring(3)"), std::string::npos);
}

// Whatever is chosen can be run: a right plan for processes of one host.
TEST(Selection, EveryChoiceIsARunnablePlan) {
  const AlgorithmOverrides none;
  for (int c = 0; c < kCollectiveCount; ++c) {
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{8} << 10, (size_t{8} << 10) + 1, size_t{1} << 30}) {
      for (const int ranks : {1, 2, 3, 8}) {
        for (const bool beside_gpus : {false, true}) {
          const auto collective = static_cast<Collective>(c);
          const Choice choice = select_for_host({collective, bytes, ranks, ranks - 1, beside_gpus}, none);
          EXPECT_FALSE(choice.reason.empty());
          const VerifiedPlan plan = verify(make_plan(choice.algorithm, choice.arguments));
          EXPECT_EQ(plan.plan().collective, collective);
          EXPECT_EQ(plan.plan().rank_count(), ranks);
          EXPECT_EQ(plan.plan().reach, Reach::kStaged);
          EXPECT_EQ(plan.plan().root, has_root(collective) ? ranks - 1 : 0);
        }
      }
    }
  }
}

// Of a communicator with GPUs that is asked for on those.
TEST(Selection, LeavesToGpusWhatIsForGpus) {
  const AlgorithmOverrides overrides = AlgorithmOverrides::parse("all_gather:pull,all_reduce:ring");
  SelectionQuery query{Collective::kAllGather, 1 << 20, 4, 0};
  query.beside_gpus = true;
  EXPECT_EQ(select_for_host(query, overrides).algorithm, "flat");
  query.collective = Collective::kAllReduce;
  EXPECT_EQ(select_for_host(query, overrides).algorithm, "ring");
}

}  // namespace
}  // namespace plait
