// Levels as users write them.
#include "algorithms/level.hpp"

#include <gtest/gtest.h>

#include "algorithms/spec.hpp"
#include "algorithms/steps/levels.hpp"
#include "unit/algorithms/plans.hpp"

namespace plait {
namespace {

TEST(Level, ReadsWhatItWrites) {
  EXPECT_EQ(parse_level("4: ring"), (Level{.factor = 4, .algorithm = "ring"}));
  EXPECT_EQ(parse_level("group:flat( leaders=2,store )"),
            (Level{.reach = Reach::kGroup, .algorithm = "flat", .leaders = 2, .direction = Direction::kStore}));
  for (const char* text : {"4: ring", "group: flat", "node: ring(parts=2)", "all: binomial(load, parts=3)",
                           "16: flat(store, leaders=2, all_reduce)", "node: chain(load)"}) {
    EXPECT_EQ(to_text(parse_level(text)), text);
  }
}

// Whatever a level may have, its text says it.
TEST(Level, EveryLevelRoundTrips) {
  for (const LevelAlgorithm& algorithm : level_algorithms()) {
    for (const Reach reach : {Reach::kFactor, Reach::kGroup, Reach::kNode, Reach::kAll}) {
      for (int bits = 0; bits < 16; ++bits) {
        Level level{
            .reach = reach, .factor = reach == Reach::kFactor ? 6 : 1, .algorithm = std::string(algorithm.name)};
        if (algorithm.parts && (bits & 1) != 0) level.parts = 3;
        if (algorithm.leaders && (bits & 2) != 0) level.leaders = 2;
        if (algorithm.direction && (bits & 4) != 0) level.direction = Direction::kStore;
        if (algorithm.radix && (bits & 4) != 0) level.radix = 5;
        level.all_reduce = (bits & 8) != 0;
        EXPECT_EQ(parse_level(to_text(level)), level) << to_text(level);
      }
    }
  }
}

TEST(Level, SpecsHaveThem) {
  const std::string text = "hierarchical(4: ring(parts=2), node: flat(load, leaders=1), all: ring, parts=3, zero_copy)";
  const AlgorithmSpec spec = parse_spec(text, Collective::kAllReduce);
  EXPECT_EQ(spec.levels.size(), 3U);
  EXPECT_EQ(spec.parts, 3);
  EXPECT_EQ(to_text(spec), text);
  test::expect_invalid([] { parse_spec("ring(4: ring)", Collective::kAllReduce); }, "only hierarchical takes levels");
}

TEST(Level, SaysWhatItExpects) {
  const auto refused = [](const std::string& text, const std::string& part) {
    test::expect_invalid([&] { parse_spec(join("hierarchical(", text, ")"), Collective::kAllReduce); }, part);
  };
  refused("4: rng", "'rng' is no algorithm for a level; use one of: binomial, chain, double_binary_tree, flat");
  refused("4: rng", "did you mean 'ring'?");
  refused("0: ring", "'0', which is not a positive number, nor group, node or all");
  refused("nodes: ring", "a level looks like 4: ring");
  refused("4: ring(leaders=2)", "ring has none to choose; ring takes in parentheses: all_reduce, parts=2");
  refused("4: flat(parts=2)", "never cuts a piece into any");
  refused("4: ring(load)", "moves data one way only");
  refused("4: flat(load, store)", "has two directions");
  refused("4: flat(both)", "'both', which is not known");
  refused("4: ring(parts=0)", "'parts=0', which is not a positive number");
  refused("4: binomial(radix=1)", "'radix=1', which is not from 2 to 8");
  refused("4: chain(radix=4)",
          "no k-nomial tree that it could be for; chain takes in parentheses: all_reduce, parts=2, load");
  refused("4: ring(parts=2, parts=1)", "has 'parts=' twice");
  refused("4: binomial(radix=2, radix=3)", "has 'radix=' twice");
  refused("4: flat(leaders=1, leaders=1)", "has 'leaders=' twice");
  refused("4: ring()", "has an item that is empty");
  refused("4: ring(parts=2", "parenthesis");
  refused("4: ring, store", "store");
}

}  // namespace
}  // namespace plait
