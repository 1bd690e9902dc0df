// Choices by simulation: where nothing was measured, and where rows were measured with fewer ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "model/simulator/simulation.hpp"
#include "plan/form.hpp"
#include "support/seed.hpp"
#include "topology/machines.hpp"
#include "tuner/tuner.hpp"

namespace plait {
namespace {

double simulated(const RankMachine& on, const Candidate& it, double bytes) {
  const Plan plan = find_algorithm(it.choice.algorithm, it.choice.arguments.collective).make(it.choice.arguments);
  Routes routes(on.topology, on.placement);
  const SimulatorProgram program = compile(plan, check_form(plan), routes);
  const SimulatedMachine machine(program, on.topology, on.profile->costs, flags_of(it.protocol), bytes);
  return simulate(program, machine, bytes).seconds;
}

Tuner tuner_of(const std::string& name, int nodes, const LaunchTimer* timer = nullptr, int ranks = 0,
               const Settings& settings = {}) {
  const Topology topology = machine(name, nodes);
  const auto gpus = static_cast<int>(devices_of(topology, DeviceKind::kGpu).size());
  return Tuner(place_on(topology, ranks == 0 ? gpus : ranks, settings), settings, {}, true, timer);
}

struct Place {
  const char* name;
  int nodes;
};
constexpr Place kUnmeasured[] = {{"summit", 1}, {"lassen", 1},       {"dgx1-v100", 1}, {"abci", 2},
                                 {"kesch", 2},  {"nvlink-pairs", 1}, {"mi300x-8", 2},  {"tsubame3", 1}};

// Sampled sizes, at which nothing lies between samples.
size_t drawn_bytes(test::Random& random) { return size_t{1024} << 2 * test::between(random, 0, 9); }

// Candidates that the model alone finds cheapest are often slower: transfers share links.
TEST(SimulatedChoice, IsTheFastestOfAllCandidates) {
  test::Random random(test::run_seed());
  int differ = 0;
  for (const Place& place : kUnmeasured) {
    Tuner tuner = tuner_of(place.name, place.nodes);
    for (const Collective collective : {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast,
                                        Collective::kAllGather, Collective::kGather, Collective::kScatter}) {
      const size_t bytes = drawn_bytes(random);
      const auto message = static_cast<double>(bytes);
      const Choice choice = tuner.choose({collective, bytes});
      const Candidate chosen = tuner.costed(choice);
      EXPECT_TRUE(choice.is_simulated && !choice.is_measured);
      double least = std::numeric_limits<double>::infinity();
      for (const Candidate& it : tuner.candidates(collective, 0).all) {
        least = std::min(least, simulated(tuner.machine(), it, message));
      }
      EXPECT_LE(simulated(tuner.machine(), chosen, message), least * 1.0011)
          << choice.plan.text() << ", " << name(collective) << " of " << bytes << " bytes on " << place.name;
      differ += tuner.candidates(collective, 0).cheapest(message).choice.text() != choice.plan.text();
    }
  }
  EXPECT_GT(differ, 0);
}

// More ranks than that take too long.
TEST(SimulatedChoice, OfManyRanksIsByTheModel) {
  Tuner tuner = tuner_of("kesch", 5);
  const Choice choice = tuner.choose({Collective::kAllReduce, 1 << 20});
  EXPECT_FALSE(choice.is_simulated);
  EXPECT_EQ(choice.plan.text(), tuner.candidates(Collective::kAllReduce, 0).cheapest(1 << 20).choice.text());
}

// A gather's last step is the root's link. A tree leaves it idle while its lower levels are under way.
TEST(SimulatedChoice, OfManyBlocksToOneRankIsEachByItself) {
  for (const Collective collective : {Collective::kGather, Collective::kScatter}) {
    EXPECT_EQ(tuner_of("kesch", 2).choose({collective, size_t{256} << 20}).plan.text(), "linear");
  }
  EXPECT_NE(tuner_of("kesch", 2).choose({Collective::kAllToAll, size_t{256} << 20}).plan.text(), "linear");
}

// By the model all are equal, since they load the same links alike. The algorithm's candidates have up to four parts,
// and the tuner goes on from there.
TEST(SimulatedChoice, KnowsThatPartsOverlap) {
  for (const Collective collective : {Collective::kGather, Collective::kScatter}) {
    const PlanChoice choice = tuner_of("mi300x-8", 2).choose({collective, size_t{256} << 20}).plan;
    EXPECT_EQ(choice.algorithm, "max_flow");
    EXPECT_GT(choice.arguments.parts, 4);
  }
}

// --- rows that were measured with up to 4 ranks, on 8 ---

constexpr size_t kBytes = 32 << 20;
constexpr double kFlatSeconds = 1e-3;

bool knows_all(const RankMachine&) { return true; }

// Chains take `share` percent of what flat plans do, and others a hundred times as much.
template <int share>
std::optional<double> chains_take(const RankMachine&, const LaunchToTime& it, double most) {
  const std::string& algorithm = it.plan->plan().algorithm;
  const double seconds = kFlatSeconds * (algorithm.starts_with("flat(")    ? 1
                                         : algorithm.starts_with("chain(") ? share / 100.0
                                                                           : 100);
  return seconds > most ? std::nullopt : std::optional(seconds);
}

constexpr LaunchTimer kMuchFaster = {knows_all, chains_take<70>};
constexpr LaunchTimer kALittleFaster = {knows_all, chains_take<90>};

Choice reduce_on(const std::string& name, int ranks, const LaunchTimer* timer, const Settings& settings = {}) {
  return tuner_of(name, 1, timer, ranks, settings).choose({Collective::kReduce, kBytes});
}

TEST(RowsOfFewerRanks, GiveWayToWhatIsMuchFaster) {
  const Choice choice = reduce_on("hgx-h100-8", 8, &kMuchFaster);
  EXPECT_EQ(choice.plan.algorithm, "chain");
  EXPECT_FALSE(choice.is_measured || choice.zero_copy || choice.ending);
  EXPECT_TRUE(choice.is_simulated);
  EXPECT_EQ(choice.origin(), "");
  EXPECT_EQ(choice.plan.reason,
            "much faster than flat(store), by the simulation of launches; that one was measured on up to 4 ranks of "
            "H100, H200");
}

TEST(RowsOfFewerRanks, HoldAgainstWhatIsALittleFaster) {
  const Choice choice = reduce_on("hgx-h100-8", 8, &kALittleFaster);
  EXPECT_EQ(choice.plan.text(), "flat(store)");
  EXPECT_TRUE(choice.is_measured && !choice.is_simulated);
  EXPECT_NE(choice.measured_elsewhere, "");
}

TEST(RowsOfFewerRanks, HoldWhereLaunchesAreNotKnown) {
  EXPECT_EQ(reduce_on("hgx-h100-8", 8, nullptr).plan.text(), "flat(store)");
  constexpr LaunchTimer kNothing = {[](const RankMachine&) { return false; }, chains_take<70>};
  EXPECT_EQ(reduce_on("hgx-h100-8", 8, &kNothing).plan.text(), "flat(store)");
}

// Whatever simulations say.
TEST(RowsOfFewerRanks, HoldWithAsManyRanksAsWereMeasured) {
  for (const char* name : {"hgx-h100-8", "hgx-h200-4"}) {
    for (const int ranks : {2, 3, 4}) {
      for (int i = 0; i < kCollectiveCount; ++i) {
        const Query query{static_cast<Collective>(i), i == static_cast<int>(Collective::kBarrier) ? 0 : kBytes};
        const Choice with = tuner_of(name, 1, &kMuchFaster, ranks).choose(query);
        const Choice without = tuner_of(name, 1, nullptr, ranks).choose(query);
        EXPECT_TRUE(with.is_measured);
        EXPECT_EQ(with.plan.text(), without.plan.text());
        EXPECT_EQ(with.reason(), without.reason());
      }
    }
  }
}

// Launches are simulated with as many SMs as are fast, and in the shape that the tuner gives them.
TEST(RowsOfFewerRanks, HoldWhereUsersLimitLaunches) {
  Settings few, pinned;
  pinned.launch = "Simple:16x512";
  EXPECT_TRUE(reduce_on("hgx-h100-8", 8, &kMuchFaster, pinned).is_measured);
  RankMachine on = place_on(machine("hgx-h100-8", 1), 8, few);
  on.gpus->most_sms = 16;
  EXPECT_TRUE(Tuner(std::move(on), few, {}, true, &kMuchFaster).choose({Collective::kReduce, kBytes}).is_measured);
}

}  // namespace
}  // namespace plait
