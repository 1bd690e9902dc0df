// Plans as JSON.
#include "plan/json.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "base/error.hpp"
#include "plan/verifier.hpp"
#include "property/plan_zoo.hpp"

namespace plait {
namespace {

// A small valid plan. Each test below puts one fault into it.
const std::string kPair = R"({
  "plait_plan": 2,
  "algorithm": "pair",
  "collective": "broadcast",
  "access": "staged",
  "root": 0,
  "blocks": 1,
  "chunks_per_block": 1,
  "in_place": true,
  "node_of": [0, 0],
  "ranks": [
    {"scratch_slots": 0, "host_slots": 0, "signals": 0, "messages": 0, "queues": [
      {"engine": "cpu", "operations": [
        {"op": "reduce", "to": ["r0.output", "r1.scratch[0]"], "from": ["r0.input"], "chunk": 0},
        {"op": "signal", "number": 0, "rank": 1, "queue": 0}]}]},
    {"scratch_slots": 1, "host_slots": 0, "signals": 1, "messages": 0, "queues": [
      {"engine": "cpu", "operations": [
        {"op": "wait", "number": 0, "rank": 0, "queue": 0},
        {"op": "reduce", "to": ["r1.output"], "from": ["r1.scratch[0]"], "chunk": 0}]}]}]
}
)";

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t position = text.find(what);
  EXPECT_NE(position, std::string::npos) << what;
  return text.replace(position, what.size(), by);
}

void expect_fault(const std::string& text, const std::string& line, const std::string& words) {
  try {
    plan_from_json(text, "pair.json");
    FAIL() << "was read, although: " << words;
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput) << message;
    EXPECT_EQ(message.rfind("pair.json:" + line + ":", 0), 0u) << message;
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }
}

TEST(PlanJson, RoundTripIsExact) {
  for (const Plan& plan : test::zoo()) {
    const std::string text = to_json(plan);
    const Plan back = plan_from_json(text, "zoo.json");
    EXPECT_EQ(back, plan) << plan.algorithm;
    EXPECT_EQ(to_json(back), text);
    EXPECT_NO_THROW(verify(back)) << plan.algorithm;
  }
}

TEST(PlanJson, RoundTripKeepsWhatMakesNoSense) {
  Plan plan = test::ring_all_reduce(2);
  plan.algorithm = "quotes \" back\\slash";
  Operation& reduce = plan.ranks[0].queues[0].operations[0];
  reduce.number = 7;
  reduce.peer_rank = -3;
  reduce.peer_queue = 2147483647;
  reduce.chunk = -2147483647 - 1;
  reduce.chunks = 0;
  reduce.sources[0] = {-1, Buffer::kInput, -5};
  reduce.destinations.clear();
  Operation& signal = plan.ranks[0].queues[0].operations[1];
  signal.chunk = 3;
  signal.chunks = 9;
  signal.sources.push_back({0, Buffer::kHost, 0});
  plan.ranks[1].scratch_slots = -1;
  EXPECT_EQ(plan_from_json(to_json(plan), "odd.json"), plan);
}

TEST(PlanJson, ReadsWhatPeopleWrite) {
  const Plan plan = plan_from_json(kPair, "pair.json");
  EXPECT_EQ(plan.algorithm, "pair");
  EXPECT_EQ(plan.ranks[0].queues[0].operations[0].destinations[1], (Place{1, Buffer::kScratch, 0}));
  EXPECT_EQ(to_json(plan), kPair);
  EXPECT_NO_THROW(verify(plan));
}

TEST(PlanJson, OneOperationALine) {
  EXPECT_NE(to_json(test::ring_all_reduce(3))
                .find("\n        {\"op\": \"reduce\", \"to\": [\"r1.scratch[1]\"], \"from\": [\"r0.scratch[0]\", "
                      "\"r0.input\"], "
                      "\"chunk\": 2},\n"),
            std::string::npos);
}

TEST(PlanJson, FaultsNameFileLineAndWhatWasExpected) {
  expect_fault("[]", "1", "a plan: an object with \"plait_plan\"");
  expect_fault("{}", "1", "a plan: an object with \"plait_plan\", as `plait plan --format json` writes it");
  expect_fault("", "1", "expected");
  expect_fault(replaced(kPair, "\"plait_plan\": 2", "\"plait_plan\": 1"), "2", "version 2 of plans");
  expect_fault(
      replaced(kPair, "\"broadcast\"", "\"bcast\""), "4",
      "a collective (all_reduce, reduce, broadcast, reduce_scatter, all_gather, gather, scatter, all_to_all, barrier)");
  expect_fault(replaced(kPair, "\"staged\"", "\"far\""), "5", "an access (staged, zero_copy)");
  expect_fault(replaced(kPair, "\"root\": 0,", "\"root\": 0.5,"), "6", "found the number 0.5");
  expect_fault(replaced(kPair, "\"blocks\": 1", "\"blocks\": -1"), "7", "found the number -1");
  expect_fault(replaced(kPair, "\"chunks_per_block\": 1", "\"chunks_per_block\": 2147483648"), "8", "expected");
  expect_fault(replaced(kPair, "\"in_place\": true", "\"in_place\": 1"), "9", "a boolean");
  expect_fault(replaced(kPair, "[0, 0]", "[0, 0, 0]"), "11", "an array of 3 ranks");
  expect_fault(replaced(kPair, "\"host_slots\": 0, ", ""), "12", "host_slots");
  expect_fault(replaced(kPair, "\"host_slots\": 0", "\"host_slot\": 0"), "12", "host_slot");
  expect_fault(replaced(kPair, "\"cpu\"", "\"dpu\""), "13", "an engine (sm, copy, cpu, net)");
  expect_fault(replaced(kPair, "\"op\": \"reduce\"", "\"op\": \"fuse\""), "14",
               "a kind of operation (reduce, send, receive, signal, wait)");
  expect_fault(replaced(kPair, ", \"chunk\": 0", ""), "14", "chunk");
  expect_fault(replaced(kPair, "\"number\": 0, \"rank\": 1", "\"number\": 0, \"rank\": 99999999999"), "15", "expected");
  expect_fault(replaced(kPair, "\"number\": 0, ", ""), "15", "number");
  expect_fault(replaced(kPair, "[\"r0.input\"]", "\"r0.input\""), "14", "an array of places");
}

TEST(PlanJson, PlacesAreReadStrictly) {
  for (const char* bad : {"\"\"", "\"r\"", "\"r0\"", "\"0.input\"", "\"r0.inputs\"", "\"r0.scratch\"",
                          "\"r0.scratch[]\"", "\"r0.scratch[1\"", "\"r0.scratch[1]x\"", "\"r0.scratch[99999999999]\"",
                          "\"r 0.input\"", "\"r0.input \"", "\"r0x.input\"", "7", "null", "[]"}) {
    expect_fault(replaced(kPair, "[\"r0.input\"]", std::string("[") + bad + "]"), "14", "a place such as");
  }
}

TEST(PlanJson, HugeNumbersAreRefusedByTheVerifierAndNotAllocated) {
  const std::string slots = replaced(kPair, "\"scratch_slots\": 1", "\"scratch_slots\": 2147483647");
  try {
    verify(plan_from_json(slots, "pair.json"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("its proof would take about 60.1 GB"), std::string::npos) << error.what();
  }
}

TEST(PlanJson, LargePlansLoadFast) {
  const Plan plan = test::ring_all_reduce(128);
  const std::string text = to_json(plan);
  const auto start = std::chrono::steady_clock::now();
  const Plan back = plan_from_json(text, "ring.json");
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(back, plan);
  RecordProperty("bytes", static_cast<int>(text.size()));
  RecordProperty("milliseconds", static_cast<int>(taken.count() * 1e3));
  EXPECT_LT(taken.count(), 10) << "for " << text.size() << " bytes";  // 0.2 s if nothing else runs
}

}  // namespace
}  // namespace plait
