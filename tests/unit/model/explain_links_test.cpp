// Plans on links, in words.
#include "model/explain_links.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "property/plan_zoo.hpp"
#include "support/add_device.hpp"
#include "topology/machines.hpp"

namespace plait {
namespace {

std::string explained(const char* machine_name, int ranks, const char* algorithm,
                      Collective collective = Collective::kAllReduce, double bytes = 0) {
  const Topology topology = machine(machine_name);
  const Placement placement = place_ranks(topology, ranks);
  const AlgorithmArguments arguments = arguments_for(topology, placement, collective);
  return explain_links(verify(make_plan(algorithm, arguments)), topology, placement, bytes);
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

TEST(ExplainLinks, TheFlatRingOnSummit) {
  const std::string text = explained("summit", 6, "ring");
  expect_part(text, "ring: all_reduce over 6 ranks of summit, 10 steps\n");
  expect_part(text,
              "bound     at most 30 GB/s of message: gpu0 -> gpu1 (nvlink, 50 GB/s) carries 1.67 times the message\n");
  expect_part(text, "so it can come close to that");
  expect_part(text, "  nvlink   8 of 12 used ");
  expect_part(text, "  pcie     0 of 2 used ");
  expect_part(text, "  gpu0 -> gpu1  nvlink   1.67   50 GB/s    100 %\n");
  expect_part(text, "  cpu0 -> cpu1  socket   1.67   64 GB/s    78 %\n");
  expect_part(text,
              "unused    nvlink: gpu0-gpu2, gpu3-gpu5, cpu0-gpu1, cpu1-gpu4\n          pcie: cpu0-nic0, cpu1-nic1\n");
  EXPECT_EQ(text.back(), '\n');
}

TEST(ExplainLinks, TellsTimeWhereTheSizeIsKnown) {
  expect_part(explained("summit", 6, "ring", Collective::kAllReduce, 3e9),
              "bound     at least 100 ms (30 GB/s of message)");
  expect_part(explained("summit", 6, "ring", Collective::kAllReduce, 3e5),
              "bound     at least 10 us (30 GB/s of message)");
}

TEST(ExplainLinks, ChainsThatWait) {
  const Topology topology = machine("tsubame3");
  const Placement placement = place_ranks(topology, 4);
  expect_part(explain_links(verify(test::chain_broadcast(4, 0, 1)), topology, placement),
              "but its operations wait for each other for 3 times as long: 6.67 GB/s of message\n");
}

TEST(ExplainLinks, CopyEngines) {
  const Topology topology = machine("dgx2");
  const Placement placement = place_ranks(topology, 4);
  AlgorithmArguments arguments = arguments_for(topology, placement, Collective::kAllGather);
  arguments.engine = Engine::kCopy;
  arguments.access = Access::kZeroCopy;
  const std::string text = explain_links(verify(make_plan("flat(load, zero_copy)", arguments)), topology, placement);
  expect_part(text, "flat(load, zero_copy, engine=copy): all_gather over 4 ranks of dgx2, 2 steps\n");
  expect_part(text, "bound     at most ");
}

// Every node has four NVLinks each way and more; a line for each would say nothing.
TEST(ExplainLinks, ManyLinksAreCounted) {
  const Topology topology = machine("abci", 32);
  const Placement placement = place_ranks(topology, 128);
  const AlgorithmArguments arguments = arguments_for(topology, placement, Collective::kBroadcast);
  const std::string text = explain_links(verify(make_plan("binomial", arguments)), topology, placement);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 80) << text;
  expect_part(text, " more, at most ");
  expect_part(text, " % each\n");
  expect_part(text, "unused    nvlink: ");
  expect_part(text, " more\n");
}

TEST(ExplainLinks, RanksOnCpus) {
  Topology host;
  host.name = "host";
  test::add_device(host, DeviceKind::kCpu, "cpu0");
  test::add_device(host, DeviceKind::kMemory, "memory0");
  host.add_link({0, 1, LinkKind::kMemory, 1, 60, ""});
  const Placement placement = place_ranks(host, 4);
  const AlgorithmArguments arguments = arguments_for(host, placement, Collective::kAllReduce);
  const std::string text = explain_links(verify(make_plan("ring", arguments)), host, placement);
  expect_part(text,
              "bound     at most 10 GB/s of message: cpu0 -> memory0 (memory, 60 GB/s) carries 6 times the message");
  expect_part(text, "  memory   1 of 1 used     12     100 %\n");
  expect_part(text, "  memory0 -> cpu0  memory   6      60 GB/s    100 %\n");
  EXPECT_EQ(text.find("no link"), std::string::npos) << text;
}

TEST(ExplainLinks, NothingToMove) {
  const std::string text = explained("summit", 4, "recursive_doubling", Collective::kBarrier);
  expect_part(text, "no link is used\n");
}

TEST(ExplainLinks, EveryAlgorithmOnEveryMachine) {
  for (const std::string& name : machine_names()) {
    const Topology topology = machine(name);
    const int gpus = static_cast<int>(devices_of(topology, DeviceKind::kGpu).size());
    const std::string text = explained(name.c_str(), topology.nodes > 1 ? topology.nodes : std::min(gpus, 8), "ring");
    EXPECT_EQ(text.find("nan"), std::string::npos) << text;
    EXPECT_EQ(text.find("inf"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace plait
