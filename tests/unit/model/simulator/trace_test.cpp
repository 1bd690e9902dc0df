// Timelines of runs.
#include "model/simulator/trace.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"
#include "property/plan_zoo.hpp"
#include "topology/machines.hpp"

namespace plait {
namespace {

struct Traced {
  Plan plan = test::ring_all_reduce(4);
  Topology topology = plait::machine("dgx1-v100");
  Placement placement = place_ranks(topology, 4);
  Routes routes{topology, placement};
  SimulatorProgram program = compile(plan, check_form(plan), routes);
  SimulatedMachine machine{program, topology, costs(), FlagPlace::kBehindData};
  SimulatedRun run = simulate(program, machine, 1e8, true);
  CriticalPath path = critical_path(program, machine, run);

  static Costs costs() {
    Costs costs;
    costs.operation_seconds = 1e-6;
    costs.signal_seconds.fill(2e-6);
    return costs;
  }
  std::string text() const { return trace_of(plan, program, machine, run, path, topology, placement); }
};

using Row = std::pair<int64_t, int64_t>;  // process and thread

Row row_of(const JsonValue& event) { return {event.at("pid").as_integer(), event.at("tid").as_integer()}; }

TEST(Trace, EventsOfARowFollowEachOther) {
  const Traced traced;
  const JsonDocument document = JsonDocument::parse(traced.text(), "trace");
  const JsonValue events = document.root().at("traceEvents");
  std::map<Row, double> now;
  double last = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    const JsonValue event = events.at(i);
    if (event.at("ph").as_string() != "X") continue;
    const double from = event.at("ts").as_number(), length = event.at("dur").as_number();
    EXPECT_GE(from, now[row_of(event)] - 1e-6) << event.at("name").as_string();
    EXPECT_GE(length, 0);
    now[row_of(event)] = from + length;
    last = std::max(last, from + length);
  }
  EXPECT_NEAR(last * 1e-6, traced.run.seconds, 1e-11);
  // The path is without a gap from the first operation to the end of the last.
  EXPECT_NEAR(now[Row(1, 1)] * 1e-6, traced.run.seconds, 1e-11);
}

TEST(Trace, EveryRowHasANameAndEveryQueueItsOperations) {
  const Traced traced;
  const JsonDocument document = JsonDocument::parse(traced.text(), "trace");
  const JsonValue events = document.root().at("traceEvents");
  std::map<Row, std::string> names;
  std::map<std::string, size_t> count;
  std::set<std::string> operations;
  for (size_t i = 0; i < events.size(); ++i) {
    const JsonValue event = events.at(i);
    if (event.at("name").as_string() == "thread_name") {
      names[row_of(event)] = std::string(event.at("args").at("name").as_string());
    }
  }
  for (size_t i = 0; i < events.size(); ++i) {
    const JsonValue event = events.at(i);
    if (event.at("ph").as_string() != "X") continue;
    ASSERT_TRUE(names.count(row_of(event))) << "a row without a name";
    ++count[names[row_of(event)]];
    operations.insert(std::string(event.at("name").as_string()));
  }
  EXPECT_EQ(count["queue 0 (cpu)"], traced.program.steps.size());  // of four ranks
  EXPECT_GT(count["cause"], 0u);
  EXPECT_GT(count["gpu0 -> gpu1"], 0u);
  EXPECT_TRUE(operations.count("reduce r1.scratch[0] <- r0.input : chunk 0"));
}

TEST(Trace, ArrowsLeadFromWhoTellsToWhoWaits) {
  const Traced traced;
  const JsonDocument document = JsonDocument::parse(traced.text(), "trace");
  const JsonValue events = document.root().at("traceEvents");
  std::map<int64_t, double> told, heard;
  for (size_t i = 0; i < events.size(); ++i) {
    const JsonValue event = events.at(i);
    if (event.at("ph").as_string() == "s") told[event.at("id").as_integer()] = event.at("ts").as_number();
    if (event.at("ph").as_string() == "f") heard[event.at("id").as_integer()] = event.at("ts").as_number();
  }
  EXPECT_GT(told.size(), 0u);
  ASSERT_EQ(told.size(), heard.size());
  for (const auto& [signal, time] : told) EXPECT_GT(heard.at(signal), time);
}

TEST(Trace, RefusesRunsThatNoBrowserOpens) {
  Traced traced;
  traced.program.steps.resize(kMostTracedSteps + 1);
  EXPECT_THROW(traced.text(), Error);
}

}  // namespace
}  // namespace plait
