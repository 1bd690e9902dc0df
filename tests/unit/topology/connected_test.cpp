// Ranks between which no data gets, against a search of paths between all pairs of them, on random machines.
#include "topology/connected.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "support/add_device.hpp"
#include "support/seed.hpp"
#include "topology/machines.hpp"
#include "topology/paths.hpp"
#include "topology/readers.hpp"
#include "unit/topology/expect_error.hpp"

namespace plait {
namespace {

// Nodes of two sockets with a PCIe switch each, GPUs below them, and a NIC; every link is there or not.
class RandomMachine {
 public:
  explicit RandomMachine(test::Random& random) : random_(random) {
    topology_.name = "random";
    topology_.nodes = static_cast<int>(test::between(random, 1, 3));
    const int network = add(DeviceKind::kNetSwitch, kNoNode), domain = add(DeviceKind::kNvSwitch, kNoNode);
    for (int node = 0; node < topology_.nodes; ++node) {
      std::vector<int> cpus;
      for (int socket = 0; socket < 2; ++socket) {
        cpus.push_back(add(DeviceKind::kCpu, node));
        const int below = add(DeviceKind::kPcieSwitch, node);
        link(cpus.back(), below, LinkKind::kPcie, 9);
        for (uint64_t gpus = test::between(random_, 1, 3); gpus > 0; --gpus) {
          gpus_.push_back(add(DeviceKind::kGpu, node));
          link(below, gpus_.back(), LinkKind::kPcie, 8);
          link(domain, gpus_.back(), LinkKind::kNvlink, 1);
        }
      }
      link(cpus[0], cpus[1], LinkKind::kSocket, 5);
      const int nic = add(DeviceKind::kNic, node);
      link(cpus[0], nic, LinkKind::kPcie, 8);
      link(nic, network, LinkKind::kNetwork, 8);
    }
    for (const int a : gpus_) {
      for (const int b : gpus_) {
        if (a < b && topology_.devices[a].node == topology_.devices[b].node) link(a, b, LinkKind::kNvlink, 2);
      }
    }
    validate(topology_);
  }

  const Topology& topology() const { return topology_; }

  // Some of the GPUs, in any order.
  std::vector<int> ranks() {
    std::shuffle(gpus_.begin(), gpus_.end(), random_);
    return {gpus_.begin(), gpus_.begin() + static_cast<std::ptrdiff_t>(test::between(random_, 1, gpus_.size()))};
  }

 private:
  int add(DeviceKind kind, int node) {
    return test::add_device(topology_, kind, join(name(kind), topology_.devices.size()), node);
  }

  void link(int a, int b, LinkKind kind, uint64_t of_ten) {
    if (test::between(random_, 1, 10) <= of_ten) topology_.add_link({a, b, kind, 1, 10, ""});
  }

  test::Random& random_;
  Topology topology_;
  std::vector<int> gpus_;
};

// Goes on from each rank that is reached to all to which a path leads.
std::optional<int> search(const Topology& topology, const std::vector<int>& devices) {
  const PathFinder finder(topology);
  std::vector<bool> is_reached(devices.size());
  std::vector<size_t> frontier = {0};
  is_reached[0] = true;
  while (!frontier.empty()) {
    const size_t at = frontier.back();
    frontier.pop_back();
    for (size_t to = 0; to < devices.size(); ++to) {
      if (is_reached[to] || finder.between(devices[at], devices[to]).empty()) continue;
      is_reached[to] = true;
      frontier.push_back(to);
    }
  }
  const auto lost = std::find(is_reached.begin(), is_reached.end(), false);
  if (lost == is_reached.end()) return std::nullopt;
  return static_cast<int>(lost - is_reached.begin());
}

TEST(Connected, AgreesWithASearchOfPaths) {
  test::Random random(test::run_seed());
  int connected = 0, others = 0;
  for (int round = 0; round < test::times_to_try(3000); ++round) {
    RandomMachine machine(random);
    const std::vector<int> devices = machine.ranks();
    const std::optional<int> lost = find_unconnected(machine.topology(), devices);
    EXPECT_EQ(lost, search(machine.topology(), devices)) << to_json(machine.topology());
    (lost ? others : connected) += 1;
  }
  EXPECT_GT(connected, 0);
  EXPECT_GT(others, 0);
}

// Two sockets of one node, or two nodes.
Topology islands(int nodes) {
  Topology topology;
  topology.name = "islands";
  topology.nodes = nodes;
  for (int i = 0; i < 2; ++i) {
    const int node = nodes == 1 ? 0 : i;
    Device cpu, gpu;
    cpu.kind = DeviceKind::kCpu;
    cpu.name = join("cpu", i);
    gpu.name = join("gpu", i);
    cpu.node = gpu.node = node;
    const int a = topology.add_device(cpu), b = topology.add_device(gpu);
    topology.add_link({a, b, LinkKind::kPcie, 16, 16, ""});
  }
  return topology;
}

TEST(Connected, SaysWhichRanksAreNotAndWhatToAdd) {
  const auto said = [](const Topology& topology) {
    return error_of([&] { check_connected(topology, devices_of(topology, DeviceKind::kGpu)); },
                    ErrorCode::kInvalidArgument);
  };
  expect_contains(said(islands(1)), "no path leads from gpu0 (rank 0) to gpu1 (rank 1) of islands");
  expect_contains(said(islands(1)), "add links to the machine: between them, or between the CPUs");
  expect_contains(said(islands(2)), "no path leads from gpu0 (rank 0, node 0) to gpu1 (rank 1, node 1) of islands");
  expect_contains(said(islands(2)), "on each of the two nodes a nic with a link (pcie) to its CPU");
}

TEST(Connected, AllRanksOfMachinesThatArePartOfTheLibrary) {
  for (const std::string& name : machine_names()) {
    const Topology one = machine(name);
    EXPECT_EQ(find_unconnected(one, devices_of(one, DeviceKind::kGpu)), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace plait
