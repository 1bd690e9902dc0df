#include "topology/machines.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

#include "topology/describe.hpp"
#include "topology/groups.hpp"
#include "topology/paths.hpp"
#include "topology/readers.hpp"
#include "unit/topology/expect_error.hpp"

namespace plait {
namespace {

TEST(Machines, AreAllThere) {
  const std::vector<std::string> names = machine_names();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const char* wanted :
       {"summit",     "lassen",     "tsubame3",   "dgx1-p100",  "dgx1-v100", "dgx2",         "abci",     "mist",
        "cedar",      "kesch",      "hgx-h200-4", "hgx-h200-8", "pcie-4",    "nvlink-pairs", "dgx-a100", "a100-pcie-4",
        "hgx-h100-8", "hgx-b200-8", "l40s-8",     "rtx4090-4",  "mi300x-8",  "gb200-nvl72"}) {
    EXPECT_TRUE(std::find(names.begin(), names.end(), wanted) != names.end()) << wanted;
  }
}

TEST(Machines, AreValidAloneAndAsClusters) {
  for (const std::string& name : machine_names()) {
    SCOPED_TRACE(name);
    EXPECT_NO_THROW(validate(machine(name)));
    EXPECT_EQ(machine(name).name, name);
    if (machine(name).nodes == 1) {
      EXPECT_NO_THROW(validate(machine(name, 3)));
    }
  }
}

TEST(Machines, StateTheSourceOfEveryFact) {
  for (const std::string& name : machine_names()) {
    SCOPED_TRACE(name);
    const Topology topology = machine(name);
    EXPECT_FALSE(topology.source.empty());
    EXPECT_FALSE(topology.network.source.empty());
    for (const Device& device : topology.devices) EXPECT_FALSE(device.source.empty()) << device.name;
    for (const Link& link : topology.links) EXPECT_FALSE(link.source.empty()) << link.a << "-" << link.b;
  }
}

// The ids of papers and their requirements are for those who work on the code.
TEST(Machines, SpeakToUsersWithoutIdsOfPapers) {
  const std::regex id("\\b(NVG|TEM|UEN|AWA|BLK)\\b|\\bD-[A-Z]+-[0-9]+");
  ASSERT_TRUE(std::regex_search("lanes after doubt D-NVG-13", id));
  for (const std::string& name : machine_names()) {
    const std::string text = to_json(machine(name)) + to_text(machine(name));
    std::smatch found;
    EXPECT_FALSE(std::regex_search(text, found, id)) << name << ": " << found.str();
  }
}

// The files are as to_json would write them, so that a diff shows only what changed.
TEST(Machines, FilesAreInTheWritersLayoutAndEmbeddedUnchanged) {
  for (const std::string& name : machine_names()) {
    SCOPED_TRACE(name);
    std::ifstream file(std::string(PLAIT_SOURCE_DIR) + "/machines/" + name + ".json");
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_EQ(to_json(machine(name)), text.str());
  }
}

// BLK-09: four lanes at each P100, six at each V100.
TEST(Machines, DgxOneHasTheRightNumberOfLanesAtEachGpu) {
  for (const auto& [name, lanes, total] : {std::tuple("dgx1-p100", 4, 16), std::tuple("dgx1-v100", 6, 24)}) {
    const Topology topology = machine(name);
    int sum = 0;
    for (const int gpu : devices_of(topology, DeviceKind::kGpu)) {
      int degree = 0;
      for (const Link& link : topology.links) {
        if (link.kind == LinkKind::kNvlink && (link.a == gpu || link.b == gpu)) degree += link.width;
      }
      EXPECT_EQ(degree, lanes) << name << " " << gpu;
      sum += degree;
    }
    EXPECT_EQ(sum / 2, total);
  }
}

// Checks the best path from the first GPU to the second and to the last, and the number of groups.
TEST(Machines, OfTodayHaveThePathsThatTheirVendorsSay) {
  struct Expected {
    const char* name;
    const char* second;
    const char* last;
    size_t groups;
  };
  for (const Expected& expected : {Expected{"dgx-a100", "direct nvlink 300", "direct nvlink 300", 1},
                                   {"a100-pcie-4", "direct nvlink 300", "host pcie 31.5", 2},
                                   {"hgx-h100-8", "direct nvlink 478.125", "direct nvlink 478.125", 1},
                                   {"hgx-b200-8", "direct nvlink 956.25", "direct nvlink 956.25", 1},
                                   {"l40s-8", "direct pcie 31.5", "host pcie 31.5", 8},
                                   {"rtx4090-4", "host pcie 31.5", "host pcie 31.5", 4},
                                   {"gb200-nvl72", "direct nvlink 956.25", "direct nvlink 956.25", 1},
                                   {"mi300x-8", "direct xgmi 64", "direct xgmi 64", 1}}) {
    SCOPED_TRACE(expected.name);
    const Topology topology = machine(expected.name);
    const PathFinder finder(topology);
    const std::vector<int> gpus = devices_of(topology, DeviceKind::kGpu);
    const auto best = [&](int to) {
      const Path path = *finder.best(gpus.front(), to);
      return join(name(path.kind), " ", name(path.medium), " ", path.gbps);
    };
    EXPECT_EQ(best(gpus[1]), expected.second);
    EXPECT_EQ(best(gpus.back()), expected.last);
    EXPECT_EQ(find_groups(topology, GroupRule::kNvGroup).size(), expected.groups);
  }
}

TEST(Machines, NamesTheNearestMatchOfAnUnknownOne) {
  const std::string message = error_of([] { machine("sumit"); }, ErrorCode::kInvalidArgument);
  expect_contains(message, "did you mean \"summit\"?");
  expect_contains(message, "abci, cedar, dgx-a100, dgx1-p100");
  EXPECT_EQ(error_of([] { machine("foo"); }, ErrorCode::kInvalidArgument).find("did you mean"), std::string::npos);
  expect_contains(error_of([] { machine(""); }, ErrorCode::kInvalidArgument), "There are:");
  EXPECT_LT(error_of([] { machine(std::string(1 << 20, 'x')); }, ErrorCode::kInvalidArgument).size(), 1000u);
}

}  // namespace
}  // namespace plait
