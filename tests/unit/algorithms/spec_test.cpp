// Algorithms as users write them.
#include "algorithms/spec.hpp"

#include <gtest/gtest.h>

#include "unit/algorithms/plans.hpp"

namespace plait {
namespace {

void expect_refused(std::string_view text, Collective collective, const std::string& part) {
  test::expect_invalid([&] { parse_spec(text, collective); }, part);
}

std::string canonical(std::string_view text, Collective collective = Collective::kAllReduce) {
  return to_text(parse_spec(text, collective));
}

TEST(Spec, ReadsWhatIsGivenAndLeavesTheRestOpen) {
  EXPECT_EQ(parse_spec("ring", Collective::kAllReduce), (AlgorithmSpec{.name = "ring"}));
  EXPECT_EQ(parse_spec("flat(store, parts=2)", Collective::kAllReduce),
            (AlgorithmSpec{.name = "flat", .direction = Direction::kStore, .parts = 2}));
  EXPECT_EQ(parse_spec("hierarchical_ring(3x2, parts=4)", Collective::kAllReduce),
            (AlgorithmSpec{.name = "hierarchical_ring", .factors = {3, 2}, .parts = 4}));
  EXPECT_EQ(parse_spec("flat(load, zero_copy, engine=copy)", Collective::kAllGather),
            (AlgorithmSpec{.name = "flat", .direction = Direction::kLoad, .zero_copy = true, .engine = Engine::kCopy}));
  EXPECT_EQ(parse_spec("spanning_trees(store, count=3)", Collective::kAllReduce),
            (AlgorithmSpec{.name = "spanning_trees", .direction = Direction::kStore, .count = 3}));
  EXPECT_EQ(canonical("rings(count=2, parts=4)"), "rings(parts=4, count=2)");
  EXPECT_EQ(canonical("flat(engine=sm,zero_copy,  load )"), "flat(load, zero_copy, engine=sm)");
  EXPECT_EQ(canonical("hierarchical_ring(parts=2, 8)"), "hierarchical_ring(8, parts=2)");
  EXPECT_EQ(parse_spec("rabenseifner(4x2, near_first)", Collective::kAllReduce),
            (AlgorithmSpec{.name = "rabenseifner", .factors = {4, 2}, .order = Order::kNearFirst}));
  EXPECT_EQ(canonical("binomial(radix=4,store)", Collective::kReduce), "binomial(store, radix=4)");
}

TEST(Spec, ReadsSharesOfPaths) {
  const AlgorithmSpec spec = {.name = "multi_path",
                              .parts = 4,
                              .shares = {{PathKind::kDirect, 80}, {PathKind::kHost, 15}, {PathKind::kRelay, 5}}};
  EXPECT_EQ(parse_spec("multi_path(direct: 80, host:15, parts=4, relay : 5)", Collective::kBroadcast), spec);
  EXPECT_EQ(to_text(spec), "multi_path(direct: 80, host: 15, relay: 5, parts=4)");
  expect_refused("multi_path(direct: 80, host: 15, direct: 5)", Collective::kScatter, "two shares of direct");
  expect_refused("multi_path(net: 80)", Collective::kScatter, "'net', which is not a path");
  expect_refused("multi_path(direct: 0)", Collective::kScatter, "not a positive number");
  expect_refused("multi_path(direct: 4.5)", Collective::kScatter, "multi_path takes in parentheses");
  expect_refused("ring(direct: 80)", Collective::kAllReduce, "only hierarchical takes levels");
}

TEST(Spec, UnderstandsTheFormsOfRelease01) {
  EXPECT_EQ(canonical("push"), "flat(store)");
  EXPECT_EQ(canonical("push(2)"), "flat(store, parts=2)");
  EXPECT_EQ(canonical("push(pipeline 2)"), "flat(store, parts=2)");
  EXPECT_EQ(canonical("push(7)"), "flat(store, parts=2)");
  EXPECT_EQ(canonical("pull"), "flat(load, zero_copy)");
  EXPECT_EQ(canonical("pull(sm)"), "flat(load, zero_copy, engine=sm)");
  EXPECT_EQ(canonical("pull(copy)"), "flat(load, zero_copy, engine=copy)");
  EXPECT_EQ(canonical("push_pull"), "flat(both)");
  EXPECT_EQ(canonical("push_pull(8)"), "flat(both, parts=8)");
  EXPECT_EQ(canonical("one_shot_push(2)"), "one_shot(store, parts=2)");
  EXPECT_EQ(canonical("chain_push(4)", Collective::kReduce), "chain(store, parts=4)");
  EXPECT_EQ(canonical("ring(4)"), "ring(parts=4)");
  EXPECT_EQ(canonical("hierarchical_ring(4x2, pipeline 3)"), "hierarchical_ring(4x2, parts=3)");
  EXPECT_EQ(canonical("push", Collective::kBarrier), "flat");
}

TEST(Spec, RefusesWhatTheAlgorithmDoesNotUse) {
  constexpr Collective kReduction = Collective::kAllReduce;
  expect_refused("ring(store)", kReduction, "moves data one way only; ring takes in parentheses, separated by commas:");
  expect_refused("chain(both)", Collective::kBroadcast, "by load or by store; chain takes");
  expect_refused("flat(4x2)", kReduction, "no levels that factors could be for");
  expect_refused("recursive_doubling(parts=2)", kReduction, "never cuts the message");
  expect_refused("recursive_doubling(2)", kReduction, "never cuts the message");
  expect_refused("ring(count=2)", kReduction, "neither rings nor trees");
  expect_refused("rings(count=0)", kReduction, "not a positive number");
  expect_refused("one_shot(zero_copy)", kReduction, "passes everything through the library's memory");
  expect_refused("ring(engine=copy)", kReduction, "cannot choose one");
  expect_refused("ring(near_first)", kReduction, "takes partners in one order only");
  expect_refused("ring(radix=3)", kReduction, "no tree that it could be for; ring takes");
  expect_refused("flat(store)", Collective::kBarrier, "a barrier, which moves nothing");
}

// Only multi_path relays.
TEST(Spec, SaysWhichSharesThereAre) {
  expect_refused("multi_path(x)", Collective::kAllReduce, "direct: 80, host: 20 or relay: 20, parts=2");
  expect_refused("three_stage(x)", Collective::kAllReduce, "direct: 80, host: 20, parts=2");
}

TEST(Spec, RefusesWhatCannotBeRead) {
  for (const char* text : {"flat(", "flat(load", "flat(load)x"}) {
    expect_refused(text, Collective::kAllReduce, "lacks its last parenthesis");
  }
  for (const char* text : {"flat()", "flat(load,)", "flat(,load)", "flat( )"}) {
    expect_refused(text, Collective::kAllReduce, "item that is empty");
  }
  for (const char* text : {"ring(parts=0)", "ring(parts=x)", "ring(parts=)", "ring(-3)", "ring(two)", "ring(3.5)",
                           "ring(99999999999)", "hierarchical_ring(4x)", "hierarchical_ring(4xx2)"}) {
    expect_refused(text, Collective::kAllReduce, "not a positive number");
  }
  expect_refused("flat(load, store)", Collective::kAllReduce, "two directions");
  expect_refused("push(load)", Collective::kAllReduce, "two directions");
  expect_refused("rabenseifner(far_first, near_first)", Collective::kAllReduce, "two orders");
  expect_refused("hierarchical_ring(4x2, 2x4)", Collective::kAllReduce, "factors twice");
  expect_refused("ring(parts=4, parts=2)", Collective::kAllReduce, "two numbers of parts");
  expect_refused("ring(4, parts=2)", Collective::kAllReduce, "two numbers of parts");
  expect_refused("rings(count=2, count=2)", Collective::kAllReduce, "two counts");
  expect_refused("binomial(radix=3, radix=4)", Collective::kReduce, "two radices");
  expect_refused("flat(load, zero_copy, engine=sm, engine=copy)", Collective::kAllGather, "two engines");
  expect_refused("flat(engine=net)", Collective::kAllReduce, "'net', which is not an engine");
  expect_refused("pull(cpu)", Collective::kAllReduce, "'cpu', which is not an engine");
  expect_refused("flatt(store)", Collective::kAllReduce, "did you mean 'flat'?");
  expect_refused("", Collective::kAllReduce, "use one of");
}

TEST(Spec, WhatIsGivenWinsOverTheMachine) {
  AlgorithmArguments machine;
  machine.ranks = 6;
  machine.engine = Engine::kSm;
  machine.parts = 3;
  const AlgorithmArguments given =
      apply(parse_spec("flat(store, zero_copy, engine=copy)", Collective::kAllReduce), machine);
  EXPECT_EQ(given.direction, Direction::kStore);
  EXPECT_EQ(given.access, Access::kZeroCopy);
  EXPECT_EQ(given.engine, Engine::kCopy);
  EXPECT_EQ(given.parts, 3);
  EXPECT_EQ(given.ranks, 6);
}

// Arguments that are not given are as the algorithm likes them best.
TEST(Spec, ResolvesWhatIsOpen) {
  const auto resolved = [](std::string_view text, Collective collective, Engine engine) {
    AlgorithmArguments machine;
    machine.collective = collective;
    machine.ranks = 4;
    machine.engine = engine;
    const AlgorithmSpec spec = parse_spec(text, collective);
    const Algorithm& algorithm = find_algorithm(spec.name, collective);
    const AlgorithmArguments arguments = resolve(spec, machine);
    EXPECT_EQ(make_plan(text, arguments), algorithm.make(arguments));
    return to_text(spec_of(algorithm, arguments));
  };
  EXPECT_EQ(resolved("flat", Collective::kGather, Engine::kCpu), "flat(store)");
  EXPECT_EQ(resolved("flat", Collective::kAllReduce, Engine::kCpu), "flat(load)");
  EXPECT_EQ(resolved("flat", Collective::kAllReduce, Engine::kSm), "flat(store)");
  EXPECT_EQ(resolved("flat(load)", Collective::kAllReduce, Engine::kSm), "flat(load)");
  EXPECT_EQ(resolved("flat(parts=2)", Collective::kAllReduce, Engine::kSm), "flat(store, parts=2)");
  EXPECT_EQ(resolved("chain(parts=3)", Collective::kReduce, Engine::kCpu), "chain(load, parts=3)");
  EXPECT_EQ(resolved("chain(parts=3)", Collective::kReduce, Engine::kSm), "chain(store, parts=3)");
  EXPECT_EQ(resolved("rabenseifner", Collective::kAllReduce, Engine::kCpu), "rabenseifner(far_first)");
  EXPECT_EQ(resolved("rabenseifner(4, near_first)", Collective::kAllReduce, Engine::kCpu),
            "rabenseifner(4, near_first)");
  EXPECT_EQ(resolved("binomial(radix=3)", Collective::kBroadcast, Engine::kCpu), "binomial(load, radix=3)");
  EXPECT_EQ(resolved("pull", Collective::kAllGather, Engine::kSm), "flat(load, zero_copy, engine=copy)");
  EXPECT_EQ(resolved("pull(sm)", Collective::kAllGather, Engine::kSm), "flat(load, zero_copy, engine=sm)");
  EXPECT_EQ(resolved("pull", Collective::kAllGather, Engine::kCpu), "flat(load, zero_copy)");
}

}  // namespace
}  // namespace plait
