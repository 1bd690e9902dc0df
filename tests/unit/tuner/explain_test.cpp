// Explanations of choices.
#include "tuner/explain.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "support/seed.hpp"
#include "topology/machines.hpp"

namespace plait {
namespace {

class ExplainedOn {
 public:
  explicit ExplainedOn(const char* name, int nodes = 1, Settings settings = {}) {
    const Topology topology = machine(name, nodes);
    const auto gpus = static_cast<int>(devices_of(topology, DeviceKind::kGpu).size());
    tuner_.emplace(place_on(topology, gpus, settings), settings, PlanLimits{}, true);
  }

  std::string choice(Collective collective, size_t bytes) {
    return explain(*tuner_, {tuner_->choose({collective, bytes}), false, bytes});
  }
  std::string asked_for(const char* algorithm, Collective collective, size_t bytes) {
    const AlgorithmArguments arguments = tuner_->machine().arguments(collective, 0);
    const AlgorithmSpec spec = parse_spec(algorithm, collective);
    Choice choice;
    choice.plan = {spec.name, resolve(spec, arguments), "asked for"};
    return explain(*tuner_, {choice, true, bytes});
  }

 private:
  std::optional<Tuner> tuner_;
};

void expect_in(const std::string& part, const std::string& text) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

TEST(Explain, TheCheapestByTheModel) {
  const std::string text = ExplainedOn("summit").choice(Collective::kAllReduce, 64 << 20);
  expect_in("spanning_trees(load, parts=32): all_reduce over 6 ranks of summit, 6 steps\n", text);
  expect_in("  nvlink   12 of 12 used   12     64 %\n", text);
  expect_in("by link ", text);
  expect_in(
      "choices   the best of each algorithm for 64 MiB, by the model's simulation: time, what links allow at most, "
      "steps\n",
      text);
  expect_in("\n  spanning_trees(load, parts=32) ", text);
  expect_in(" Simple  1.49 ms     64 GB/s     6 steps  <- this plan\n", text);
  expect_in("\n  one_shot(load) ", text);
  expect_in(
      "why       the cheapest of 82 candidates by the model, in 6 steps; the next, double_binary_tree(store, parts=8), "
      "should take 1.14 times as long.\n",
      text);
}

TEST(Explain, NamesWhatWouldBeFaster) {
  ExplainedOn machine("tsubame3");
  expect_in("why       asked for by name; two_phase(load, parts=8) should take 0.334 of its time.\n",
            machine.asked_for("ring", Collective::kAllReduce, 0));
  expect_in("bandwidth, what links allow at most, steps\n", machine.asked_for("ring", Collective::kAllReduce, 0));
  const std::string fastest = ExplainedOn("dgx2").asked_for("one_shot(store)", Collective::kAllReduce, 64 << 10);
  expect_in("  one_shot(store)                     LL128   10.3 us     10 GB/s     1 step  <- this plan\n", fastest);
  expect_in("why       asked for by name; the next, recursive_doubling, should take 1.0", fastest);
}

TEST(Explain, WhatWasMeasured) {
  const std::string text = ExplainedOn("hgx-h200-4").choice(Collective::kAllReduce, size_t{1} << 30);
  expect_in("why       measured: two stages store the least bytes in the fewest steps", text);
  expect_in("; by the model, ", text);
  expect_in("flat(load, zero_copy, engine=copy) goes before it where ranks can map each other's buffers: ", text);
}

// Rows of a table that was measured on others are a guess, and hold for few ranks only.
TEST(Explain, WhatWasMeasuredElsewhere) {
  const std::string guess = "why       a guess from what was measured on up to 4 ranks of H100, H200: ";
  expect_in(guess, ExplainedOn("hgx-h100-8").choice(Collective::kAllReduce, size_t{1} << 30));
  expect_in(guess, ExplainedOn("hgx-b200-8").choice(Collective::kAllReduce, size_t{1} << 30));
  expect_in("candidates by the model", ExplainedOn("gb200-nvl72").choice(Collective::kAllReduce, size_t{1} << 30));
}

TEST(Explain, SaysWhatWasNotTried) {
  if (test::kSanitized) GTEST_SKIP() << "2,900 ranks are slow here, and Candidates.SayWhatIsTooLarge has them, too";
  const std::string text = ExplainedOn("abci", 725).choice(Collective::kAllReduce, 0);
  expect_in("  too large to try: bruck, hierarchical_ring, host_staged, nvgroup_ring, rabenseifner, ring, ", text);
  expect_in("  not for this machine: flat, multi_path, one_shot, rings, spanning_trees, two_phase\n", text);
}

TEST(Explain, ABarrierHasATimeAndNoLinks) {
  const std::string text = ExplainedOn("pcie-4").choice(Collective::kBarrier, 0);
  expect_in("no link is used\n", text);
  expect_in("choices   the best of each algorithm, by the model: time", text);
  expect_in("  flat                Simple  5.25 us     -           1 step  <- this plan\n", text);
}

}  // namespace
}  // namespace plait
