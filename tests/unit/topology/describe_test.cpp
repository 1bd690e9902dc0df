#include "topology/describe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "topology/machines.hpp"
#include "unit/topology/expect_error.hpp"

namespace plait {
namespace {

TEST(Describe, ShowsCedarOnOneScreen) {
  EXPECT_EQ(to_text(machine("cedar")),
            R"(cedar: 1 node, 4 GPUs, 2 CPUs, 1 NIC
source: Cedar, Dell C4140 nodes: Temucin et al., evaluation
devices
  cpu         2     cpu0-1 (Intel Xeon Silver 4216, 16 cores, 96 GB)
  gpu         4     gpu0-3 (NVIDIA V100-SXM2 32GB)
  nic         1     nic0 (Omni-Path, 12.5 GB/s)
links (GB/s per direction)
  nvlink      x2    50      gpu0~gpu1 gpu0~gpu2 gpu0~gpu3 gpu1~gpu2 gpu1~gpu3 gpu2~gpu3
  pcie        x16   16      cpu0~gpu0 cpu0~gpu1 cpu1~gpu2 cpu1~gpu3 cpu0~nic0
  socket      x2    38.4    cpu0~cpu1
best path between GPUs
             gpu0       gpu1       gpu2       gpu3
  gpu0       X          nvlink 50  nvlink 50  nvlink 50
  gpu1       nvlink 50  X          nvlink 50  nvlink 50
  gpu2       nvlink 50  nvlink 50  X          nvlink 50
  gpu3       nvlink 50  nvlink 50  nvlink 50  X
)");
}

TEST(Describe, SaysLikeNodesOnce) {
  const std::string text = to_text(machine("abci", 64));
  expect_contains(text, "abci: 64 nodes, 256 GPUs");
  expect_contains(text, "gpu         256   n0-63: gpu0-3");
  expect_contains(text, "n0-31: nic0~netswitch0 nic1~netswitch0 n32-63: nic0~netswitch1 nic1~netswitch1");
  expect_contains(text, "266.7   netswitch0~netswitch2 netswitch1~netswitch2");
  EXPECT_EQ(text.find("best path"), std::string::npos);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 20);
}

TEST(Describe, NamesTheKindOfPathInTheMatrix) {
  expect_contains(to_text(machine("dgx1-v100")),
                  "  gpu0       X          nvlink 25  nvlink 25  nvlink 50  nvlink 50  relay 25");
  expect_contains(to_text(machine("kesch")), "pcie 16");
  expect_contains(to_text(machine("summit", 2)), "net 12.5");
}

TEST(Describe, EveryTableLineFits) {
  for (const std::string& name : machine_names()) {
    std::istringstream text(to_text(machine(name)));
    bool matrix = false;
    for (std::string line; std::getline(text, line);) {
      matrix |= line.substr(0, 9) == "best path";
      if (!matrix && line.substr(0, 7) != "source:") {
        EXPECT_LE(line.size(), 120u) << line;
      }
    }
  }
}

TEST(Describe, SaysTheNotes) {
  Topology topology;
  topology.name = "bare";
  topology.notes = {"assumed: all of it", "left out: the rest"};
  EXPECT_EQ(to_text(topology), "bare: 1 node, 0 GPUs\nnote: assumed: all of it\nnote: left out: the rest\ndevices\n");
}

// Names that reverse the direction of text, or that terminals obey, are shown escaped.
TEST(Describe, IsFitForATerminal) {
  Topology topology = machine("mist");
  topology.devices[0].model = "CPU \u202e of\u009b31m \x1b[0m";
  topology.source = "\u2066mine";
  const std::string text = to_text(topology);
  expect_contains(text, "CPU \\u202e of\\x9b31m \\x1b[0m");
  expect_contains(text, "source: \\u2066mine");
  for (const char* raw : {"\u202e", "\u009b", "\x1b", "\u2066"}) EXPECT_EQ(text.find(raw), std::string::npos);
}

TEST(Describe, AMachineWithNothingStillHasAText) {
  Topology topology;
  topology.name = "bare";
  EXPECT_EQ(to_text(topology), "bare: 1 node, 0 GPUs\ndevices\n");
  EXPECT_EQ(to_text(topology, std::vector<Group>{}), "");
}

}  // namespace
}  // namespace plait
