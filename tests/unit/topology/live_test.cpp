#include "topology/live.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "topology/bandwidths.hpp"
#include "topology/describe.hpp"
#include "topology/paths.hpp"
#include "unit/topology/expect_error.hpp"
#include "unit/topology/parts_of_machines.hpp"

namespace plait {
namespace {

namespace fs = std::filesystem;

// A copy of /sys with two sockets of two cores (two threads each), and the GPUs and NICs that a test adds.
class LiveTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("plait-live-" + std::to_string(::getpid()));
    fs::remove_all(root_);
    for (int cpu = 0; cpu < 8; ++cpu) add_cpu(cpu, cpu / 2 % 2, cpu / 4);
    for (int numa = 0; numa < 2; ++numa) {
      write("devices/system/node/node" + std::to_string(numa) + "/cpulist", numa == 0 ? "0-1,4-5\n" : "2-3,6-7\n");
      write("devices/system/node/node" + std::to_string(numa) + "/meminfo",
            "Node " + std::to_string(numa) + " MemTotal:       97656250 kB\nNode 0 MemFree: 1 kB\n");
    }
    write("cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel name\t: AMD EPYC of a test\n");
    sources_ = {root_.string(), (root_ / "cpuinfo").string(), "libplait-no-such-nvml.so"};
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void add_cpu(int number, int package, int core) const {
    const std::string folder = "devices/system/cpu/cpu" + std::to_string(number) + "/topology/";
    write(folder + "physical_package_id", std::to_string(package) + "\n");
    write(folder + "core_id", std::to_string(core) + "\n");
  }
  // Adds a device of the bus. `path` is the chain of bus ids from the root port to it.
  void add_pci(const std::string& domain, const std::vector<std::string>& path, int numa, const std::string& speed,
               const std::string& width) const {
    std::string folder = "devices/pci" + domain;
    for (const std::string& bus_id : path) folder += "/" + bus_id;
    write(folder + "/max_link_speed", speed + "\n");
    write(folder + "/max_link_width", width + "\n");
    write(folder + "/numa_node", std::to_string(numa) + "\n");
    fs::create_directories(root_ / "bus/pci/devices");
    fs::create_directory_symlink("../../../" + folder, root_ / "bus/pci/devices" / path.back());
  }
  void add_port(const std::string& bus_id, const std::string& nic, const std::string& rate,
                const std::string& state) const {
    const std::string folder = "bus/pci/devices/" + bus_id + "/infiniband/" + nic + "/ports/1/";
    write(folder + "rate", rate + "\n");
    write(folder + "state", state + "\n");
  }

  fs::path root_;
  LiveSources sources_;
};

NvmlGpu gpu_at(const std::string& bus_id) {
  NvmlGpu gpu;
  gpu.name = "NVIDIA Test GPU";
  gpu.bus_id = bus_id;
  gpu.sm = 90;
  gpu.pcie_generation = 5;
  gpu.pcie_lanes = 16;
  return gpu;
}

TEST_F(LiveTest, WithoutADriverThereAreStillSockets) {
  const Topology machine = read_live(sources_);
  EXPECT_NO_THROW(validate(machine));
  ASSERT_EQ(devices_of(machine, DeviceKind::kCpu).size(), 2u);
  EXPECT_EQ(devices_of(machine, DeviceKind::kMemory).size(), 2u);
  EXPECT_EQ(machine.devices.size(), 4u);
  EXPECT_EQ(machine.devices[0].model, "AMD EPYC of a test");
  EXPECT_EQ(machine.devices[0].cores, 2);
  EXPECT_NEAR(machine.devices[0].memory_gb, 100, 1e-6);
  expect_contains(machine.source, "no NVML (libplait-no-such-nvml.so)");
  EXPECT_EQ(find_link(machine, "cpu0", "cpu1")->kind, LinkKind::kSocket);
  expect_contains(find_link(machine, "cpu0", "cpu1")->source, "assumed");
}

TEST_F(LiveTest, WithoutSysfsThereIsStillOneSocket) {
  const Topology machine = read_live({"/no/such/folder", "/no/such/file", "libplait-no-such-nvml.so"});
  EXPECT_NO_THROW(validate(machine));
  EXPECT_EQ(machine.devices.size(), 2u);
  EXPECT_EQ(machine.devices[0].name, "cpu0");
  EXPECT_EQ(machine.devices[1].name, "memory0");
}

TEST_F(LiveTest, OnThisMachineWorks) {
  const Topology machine = read_live();
  EXPECT_NO_THROW(validate(machine));
  ASSERT_GE(devices_of(machine, DeviceKind::kCpu).size(), 1u);
  EXPECT_GE(machine.devices[0].cores, 1);
  EXPECT_FALSE(to_text(machine).empty());
}

TEST_F(LiveTest, PackagesOfOneNumaNodeAreOneSocket) {
  // Virtual machines often show each core as a package.
  for (int cpu = 0; cpu < 8; ++cpu) add_cpu(cpu, cpu, 0);
  const Topology machine = read_live(sources_);
  ASSERT_EQ(devices_of(machine, DeviceKind::kCpu).size(), 2u);
  EXPECT_EQ(machine.devices[0].cores, 4);
}

TEST_F(LiveTest, NumaNodesOfOnePackageAreOneSocket) {
  for (int cpu = 0; cpu < 8; ++cpu) add_cpu(cpu, 0, cpu / 2);
  const Topology machine = read_live(sources_);
  ASSERT_EQ(devices_of(machine, DeviceKind::kCpu).size(), 1u);
  EXPECT_EQ(machine.devices[0].cores, 4);
  EXPECT_NEAR(machine.devices[0].memory_gb, 200, 1e-6);
}

TEST_F(LiveTest, AssumesTheBandwidthOfMemoryAndSaysSo) {
  const Topology machine = read_live(sources_);
  const Link* memory = find_link(machine, "cpu1", "memory1");
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->kind, LinkKind::kMemory);
  EXPECT_EQ(memory->gbps, kAssumedMemoryGbps);
  EXPECT_EQ(memory->source, "assumed");
  ASSERT_EQ(machine.notes.size(), 1u);
  expect_contains(machine.notes[0], "assumed: 100 GB/s each way for the memory of a CPU socket");
  // If there are GPUs, ranks are on those.
  NvmlFacts nvml;
  nvml.gpus = {gpu_at("0000:01:00.0")};
  EXPECT_TRUE(read_live(sources_, nvml).notes.empty());
}

TEST_F(LiveTest, TakesTheBandwidthOfMemoryFromLinux) {
  const auto initiators = [&](int numa, const std::string& access, const std::string& read,
                              const std::string& written) {
    const std::string folder = "devices/system/node/node" + std::to_string(numa) + "/" + access + "/initiators/";
    write(folder + "read_bandwidth", read + "\n");
    write(folder + "write_bandwidth", written + "\n");
  };
  initiators(0, "access0", "999000", "999000");  // of a GPU, for instance
  initiators(0, "access1", "200000", "150000");
  initiators(1, "access0", "120000", "130000");
  const Topology machine = read_live(sources_);
  EXPECT_EQ(find_link(machine, "cpu0", "memory0")->gbps, 150);
  EXPECT_EQ(find_link(machine, "cpu1", "memory1")->gbps, 120);
  expect_contains(find_link(machine, "cpu0", "memory0")->source, "Linux");
  EXPECT_TRUE(machine.notes.empty());
  // Two NUMA nodes in a package add up, unless one of them reports nothing.
  for (int cpu = 0; cpu < 8; ++cpu) add_cpu(cpu, 0, cpu / 2);
  EXPECT_EQ(find_link(read_live(sources_), "cpu0", "memory0")->gbps, 270);
  initiators(1, "access0", "0", "garbage");
  EXPECT_EQ(find_link(read_live(sources_), "cpu0", "memory0")->gbps, kAssumedMemoryGbps);
}

TEST_F(LiveTest, PutsDevicesBelowTheirPcieSwitches) {
  // gpu0 and a NIC share a switch (upstream port 0000:11, downstream ports 0000:12) of socket 1; gpu1 is on socket 0.
  add_pci("0000:10", {"0000:10:01.0"}, 1, "32.0 GT/s PCIe", "16");
  add_pci("0000:10", {"0000:10:01.0", "0000:11:00.0"}, 1, "32.0 GT/s PCIe", "16");
  for (const char* port : {"0000:12:00.0", "0000:12:01.0"}) {
    add_pci("0000:10", {"0000:10:01.0", "0000:11:00.0", port}, 1, "16.0 GT/s PCIe", "16");
  }
  add_pci("0000:10", {"0000:10:01.0", "0000:11:00.0", "0000:12:00.0", "0000:17:00.0"}, 1, "32.0 GT/s PCIe", "16");
  add_pci("0000:10", {"0000:10:01.0", "0000:11:00.0", "0000:12:01.0", "0000:18:00.0"}, 1, "32.0 GT/s PCIe", "16");
  add_pci("0000:00", {"0000:00:01.0"}, 0, "16.0 GT/s PCIe", "8");
  add_pci("0000:00", {"0000:00:01.0", "0000:01:00.0"}, 0, "32.0 GT/s PCIe", "16");
  add_port("0000:18:00.0", "mlx5_0", "400 Gb/sec (4X NDR)", "4: ACTIVE");
  NvmlFacts nvml;
  nvml.gpus = {gpu_at("0000:17:00.0"), gpu_at("0000:01:00.0")};
  const Topology machine = read_live(sources_, nvml);
  EXPECT_NO_THROW(validate(machine));
  const PathFinder finder(machine);
  const auto up = finder.best(device_named(machine, "gpu0"), device_named(machine, "cpu1"));
  ASSERT_TRUE(up);
  EXPECT_EQ(to_text(machine, *up).substr(0, 28), "gpu0 -> pcieswitch0 -> cpu1,");
  // The slower end of each link counts.
  EXPECT_DOUBLE_EQ(find_link(machine, "gpu0", "pcieswitch0")->gbps, pcie_gbps(16, 16));
  EXPECT_DOUBLE_EQ(find_link(machine, "cpu1", "pcieswitch0")->gbps, pcie_gbps(32, 16));
  EXPECT_DOUBLE_EQ(find_link(machine, "gpu1", "cpu0")->gbps, pcie_gbps(16, 8));
  EXPECT_EQ(machine.devices[static_cast<size_t>(device_named(machine, "nic0"))].port_gbps, 50);
  EXPECT_TRUE(find_link(machine, "nic0", "pcieswitch0"));
}

TEST_F(LiveTest, GpusThatTheBusDoesNotShowHangOnTheFirstSocket) {
  NvmlFacts nvml;
  nvml.gpus = {gpu_at("0000:17:00.0")};
  const Topology machine = read_live(sources_, nvml);
  EXPECT_DOUBLE_EQ(find_link(machine, "gpu0", "cpu0")->gbps, pcie_gbps(32, 16));
  expect_contains(machine.source, "assumed: 0000:17:00.0 is on cpu0");
}

TEST_F(LiveTest, NicsWithoutAnActivePortCarryNothing) {
  add_pci("0000:00", {"0000:00:02.0", "0000:02:00.0"}, 0, "16.0 GT/s PCIe", "16");
  add_port("0000:02:00.0", "mlx5_7", "10 Gb/sec (4X SDR)", "1: DOWN");
  const Topology machine = read_live(sources_);
  const Device& nic = machine.devices[static_cast<size_t>(device_named(machine, "nic0"))];
  EXPECT_EQ(nic.port_gbps, 0);
  EXPECT_EQ(nic.model, "mlx5_7, no active port");
}

TEST_F(LiveTest, AddsUpNvlinks) {
  NvmlFacts nvml;
  nvml.gpus = {gpu_at("0000:01:00.0"), gpu_at("0000:02:00.0"), gpu_at("0000:03:00.0")};
  const auto to_gpu = [](const std::string& bus_id) { return NvmlLink{NvmlLink::Remote::kGpu, bus_id, 25}; };
  nvml.gpus[0].links = {to_gpu("0000:02:00.0"), to_gpu("0000:02:00.0"), {NvmlLink::Remote::kCpu, "0007:00:00.0", 25}};
  nvml.gpus[1].links = {to_gpu("0000:01:00.0"), to_gpu("0000:01:00.0"), {NvmlLink::Remote::kCpu, "0007:00:00.1", 25}};
  nvml.gpus[2].links = {to_gpu("0000:77:00.0")};
  nvml.unreachable = {{0, 2}};
  const Topology machine = read_live(sources_, nvml);
  EXPECT_EQ(find_link(machine, "gpu0", "gpu1")->width, 2);
  EXPECT_EQ(find_link(machine, "gpu0", "gpu1")->gbps, 50);
  EXPECT_EQ(to_text(machine, find_groups(machine, GroupRule::kNvGroup)), "group 0: gpu0 gpu1 cpu0\ngroup 1: gpu2\n");
  expect_contains(machine.source, "an NVLink of gpu2 leads to 0000:77:00.0, which is not visible here");
  expect_contains(machine.source, "GPUs 0 and 2 cannot access each other's memory");
}

TEST_F(LiveTest, KeepsLinksToGpusThatAreNotVisible) {
  NvmlFacts nvml;
  nvml.gpus = {gpu_at("0000:01:00.0")};
  nvml.gpus[0].uuid = "GPU-12";
  nvml.gpus[0].links.assign(3, {NvmlLink::Remote::kGpu, "0000:77:00.0", 25});
  const Topology machine = read_live(sources_, nvml);
  ASSERT_EQ(machine.open_links.size(), 1u);
  const OpenLink& open = machine.open_links[0];
  EXPECT_EQ(open.device, device_named(machine, "gpu0"));
  EXPECT_EQ(open.bus_id, "0000:77:00.0");
  EXPECT_EQ(open.width, 3);
  EXPECT_EQ(open.gbps, 75);
  EXPECT_EQ(machine.devices[static_cast<size_t>(open.device)].uuid, "GPU-12");
  // This is said once, however many lanes there are.
  const size_t first = machine.source.find("not visible here");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(machine.source.find("not visible here", first + 1), std::string::npos);
}

TEST_F(LiveTest, SwitchesMayBeHidden) {
  NvmlFacts nvml;
  nvml.gpus = {gpu_at("0000:01:00.0"), gpu_at("0000:02:00.0")};
  for (NvmlGpu& gpu : nvml.gpus) {
    for (int lane = 0; lane < 18; ++lane) gpu.links.push_back({NvmlLink::Remote::kUnknown, "ffff:ff:ff.0", 0});
  }
  const Topology machine = read_live(sources_, nvml);
  const Link* link = find_link(machine, "gpu1", "nvswitch0");
  ASSERT_TRUE(link);
  EXPECT_EQ(link->width, 18);
  EXPECT_DOUBLE_EQ(link->gbps, 478.125);
  EXPECT_EQ(find_groups(machine, GroupRule::kNvGroup).size(), 1u);
}

TEST_F(LiveTest, AnNvlinkDomainOfSeveralHostsHasItsSwitchOutside) {
  NvmlFacts nvml;
  nvml.gpus = {gpu_at("0000:01:00.0"), gpu_at("0000:02:00.0")};
  for (NvmlGpu& gpu : nvml.gpus) {
    gpu.fabric = "5a-6b.7";
    gpu.links.assign(18, {NvmlLink::Remote::kUnknown, "ffff:ff:ff.0", 50});
  }
  const Topology tray = read_live(sources_, nvml);
  EXPECT_EQ(tray.devices[static_cast<size_t>(device_named(tray, "nvswitch0"))].node, kNoNode);
  EXPECT_EQ(tray.devices[static_cast<size_t>(device_named(tray, "gpu1"))].fabric, "5a-6b.7");
  EXPECT_EQ(find_groups(tray, GroupRule::kNvGroup).size(), 1u);
  const Topology rack = replicate(tray, 18);
  EXPECT_EQ(find_groups(rack, GroupRule::kNvGroup).size(), 1u);
}

TEST(Nvml, NoLibraryIsNotAnError) {
  const NvmlFacts facts = read_nvml("libplait-no-such-nvml.so");
  EXPECT_TRUE(facts.gpus.empty());
  expect_contains(facts.note, "no NVML");
  // A library without NVML's functions does not count as NVML.
  EXPECT_TRUE(read_nvml("libc.so.6").gpus.empty());
}

TEST(Nvml, BusIdsAreNormal) {
  EXPECT_EQ(normal_bus_id("00000000:17:00.0"), "0000:17:00.0");
  EXPECT_EQ(normal_bus_id("0000:AF:00.0"), "0000:af:00.0");
  EXPECT_EQ(normal_bus_id("00010000:17:00.0"), "00010000:17:00.0");
  EXPECT_EQ(normal_bus_id("00000009:01:00.0"), "0009:01:00.0");
  EXPECT_EQ(normal_bus_id(""), "");
}

}  // namespace
}  // namespace plait
