#include <gtest/gtest.h>

#include "topology/describe.hpp"
#include "topology/paths.hpp"
#include "topology/readers.hpp"
#include "unit/topology/expect_error.hpp"
#include "unit/topology/samples.hpp"

namespace plait {
namespace {

Topology parse(const std::string& text) { return parse_nvidia_smi(text, "topo.txt"); }
std::string refusal(const std::string& text) {
  return error_of([&] { parse(text); });
}

const Link* find_link(const Topology& topology, const std::string& a, const std::string& b) {
  const int first = device_named(topology, a), second = device_named(topology, b);
  for (const Link& link : topology.links) {
    if ((link.a == first && link.b == second) || (link.a == second && link.b == first)) return &link;
  }
  return nullptr;
}

TEST(NvidiaSmi, ReadsAnOldText) {
  const Topology half = parse(samples::kMatrixOld);
  EXPECT_EQ(to_text(half, find_groups(half, GroupRule::kNvGroup)), "group 0: gpu0 gpu1 gpu2 gpu3\n");
  EXPECT_EQ(devices_of(half, DeviceKind::kCpu).size(), 1u);
  EXPECT_EQ(devices_of(half, DeviceKind::kPcieSwitch).size(), 2u);
  EXPECT_EQ(devices_of(half, DeviceKind::kNvSwitch).size(), 0u);
  EXPECT_EQ(half.devices[static_cast<size_t>(device_named(half, "nic1"))].model, "mlx5_1");
  EXPECT_EQ(find_link(half, "gpu0", "gpu3")->width, 2);
  EXPECT_EQ(find_link(half, "gpu0", "gpu3")->gbps, 50);
  EXPECT_TRUE(find_link(half, "gpu0", "pcieswitch0"));
  EXPECT_TRUE(find_link(half, "gpu3", "pcieswitch1"));
  EXPECT_TRUE(find_link(half, "nic1", "pcieswitch1"));
}

TEST(NvidiaSmi, ReadsANewTextAndSeesTheSwitch) {
  const Topology hgx = parse(samples::kMatrixNew);
  EXPECT_EQ(devices_of(hgx, DeviceKind::kNvSwitch).size(), 1u);
  EXPECT_EQ(find_link(hgx, "gpu2", "nvswitch0")->width, 18);
  EXPECT_EQ(devices_of(hgx, DeviceKind::kCpu).size(), 2u);
  EXPECT_EQ(hgx.devices[static_cast<size_t>(device_named(hgx, "nic1"))].model, "mlx5_bond_1");
  // gpu1 is alone below its host bridge; gpu2 is one switch further from nic1 than gpu3.
  EXPECT_TRUE(find_link(hgx, "gpu1", "cpu0"));
  EXPECT_FALSE(find_link(hgx, "gpu2", "cpu1"));
  const PathFinder finder(hgx);
  EXPECT_EQ(finder.best(device_named(hgx, "gpu2"), device_named(hgx, "cpu1"))->devices.size(), 3u);
  EXPECT_EQ(finder.best(device_named(hgx, "gpu3"), device_named(hgx, "cpu1"))->devices.size(), 4u);
}

TEST(NvidiaSmi, TakesTextAsPasted) {
  // Without the leading tab, with spaces, an indented block and a prompt above it.
  const Topology pair = parse(
      "$ nvidia-smi topo -m\n"
      "    GPU0 GPU1 CPU Affinity NUMA Affinity\n"
      "    GPU0 X NV4 0-31 N/A\n"
      "    GPU1 NV4 X 0-31 N/A\n");
  EXPECT_EQ(to_text(pair, find_groups(pair, GroupRule::kNvGroup)), "group 0: gpu0 gpu1\n");
  EXPECT_EQ(devices_of(pair, DeviceKind::kCpu).size(), 1u);
  const Topology single = parse("\tGPU0\tCPU Affinity\nGPU0\t X \t0-7\n");
  EXPECT_EQ(devices_of(single, DeviceKind::kGpu).size(), 1u);
  EXPECT_TRUE(find_link(single, "gpu0", "cpu0"));
}

TEST(NvidiaSmi, PutsGpusOfOneAffinityOnOneCpuAndThoseSetApartOnTwo) {
  const Topology pairs = parse(
      "GPU0 GPU1 GPU2 GPU3 CPU Affinity\n"
      "GPU0 X NV12 SYS SYS 0-15\nGPU1 NV12 X SYS SYS 0-15\nGPU2 SYS SYS X NV12 16-31\nGPU3 SYS SYS NV12 X 16-31\n");
  EXPECT_EQ(devices_of(pairs, DeviceKind::kCpu).size(), 2u);
  EXPECT_EQ(find_groups(pairs, GroupRule::kGpuOnly).size(), 2u);
  EXPECT_TRUE(find_link(pairs, "gpu3", "cpu1"));
  // In a container all affinities can be the same; SYS still tells the sockets apart.
  const Topology boxed = parse("GPU0 GPU1 CPU Affinity\nGPU0 X SOC 0-31\nGPU1 SOC X 0-31\n");
  EXPECT_EQ(devices_of(boxed, DeviceKind::kCpu).size(), 2u);
}

TEST(NvidiaSmi, InfersASwitchOnlyWherePointToPointIsImpossible) {
  const auto matrix = [](int gpus, const std::string& cell) {
    std::string text;
    for (int i = 0; i < gpus; ++i) text += "GPU" + std::to_string(i) + " ";
    text += "\n";
    for (int i = 0; i < gpus; ++i) {
      text += "GPU" + std::to_string(i);
      for (int j = 0; j < gpus; ++j) text += i == j ? " X" : " " + cell;
      text += "\n";
    }
    return devices_of(parse(text), DeviceKind::kNvSwitch).size();
  };
  EXPECT_EQ(matrix(2, "NV18"), 1u);  // two GPUs of an HGX
  EXPECT_EQ(matrix(2, "NV12"), 0u);  // three bridges
  EXPECT_EQ(matrix(4, "NV2"), 0u);   // four V100 with six lanes each
  EXPECT_EQ(matrix(4, "NV6"), 0u);   // four H100 with eighteen each
  EXPECT_EQ(matrix(8, "NV12"), 1u);  // DGX A100
  EXPECT_EQ(matrix(16, "NV6"), 1u);  // DGX-2
  EXPECT_EQ(matrix(4, "PIX"), 0u);
}

TEST(NvidiaSmi, TakesGivenBandwidths) {
  const Topology pair = parse_nvidia_smi("GPU0 GPU1\nGPU0 X NV4\nGPU1 NV4 X\n", "t", {14.0625, 8});
  EXPECT_EQ(find_link(pair, "gpu0", "gpu1")->gbps, 56.25);
  EXPECT_EQ(find_link(pair, "gpu0", "cpu0")->gbps, 8);
}

TEST(NvidiaSmi, SaysWhereWhatWasExpectedAndFound) {
  expect_contains(refusal(""), "topo.txt:1: expected the header line");
  EXPECT_EQ(refusal("GPU0 GPU1\nGPU0 X NV2\n"), "topo.txt:3: expected the row of GPU1, found the end of the text");
  EXPECT_EQ(refusal("GPU0 GPU1\nGPU0 X NV2\nGPU2 NV2 X\n"), "topo.txt:3: expected the row of GPU1, found GPU2");
  EXPECT_EQ(refusal("GPU0 GPU1\nGPU0 X\nGPU1 NV2 X\n"), "topo.txt:2: expected 2 cells in the row of GPU0, found 1");
  EXPECT_EQ(refusal("GPU0 GPU1\nGPU0 X FOO\nGPU1 FOO X\n"),
            "topo.txt:2: expected X, NV#, PIX, PXB, PHB, NODE or SYS, found FOO");
  EXPECT_EQ(refusal("GPU0 GPU1\nGPU0 X NV0\nGPU1 NV0 X\n"), "topo.txt:2: expected NV1 to NV1024, found NV0");
  EXPECT_EQ(refusal("GPU0 GPU1\nGPU0 X NV99999999999\nGPU1 X X\n"),
            "topo.txt:2: expected NV1 to NV1024, found NV99999999999");
  EXPECT_EQ(refusal("GPU0 GPU1\nGPU0 X X\nGPU1 X X\n"), "topo.txt:2: expected X only on the diagonal, found X");
  EXPECT_EQ(refusal("GPU0 GPU1\nGPU0 SYS SYS\nGPU1 SYS X\n"), "topo.txt:2: expected X on the diagonal, found SYS");
  EXPECT_EQ(refusal("GPU0 GPU0\nGPU0 X X\n"), "topo.txt:1: expected each device once in the header, found GPU0 again");
  expect_contains(refusal("GPU0 GPU1\nGPU0 X NV2\nGPU1 SYS X\n"),
                  "expected the same cell for GPU0, GPU1 and for GPU1, GPU0");
  expect_contains(refusal("GPU0 X NV2\nGPU1 NV2 X\n"), "expected the header line \"GPU0 GPU1 …\" above the first row");
  std::string wide;
  for (int i = 0; i < 200; ++i) wide += "GPU" + std::to_string(i) + " ";
  expect_contains(refusal(wide), "at most 128 devices");
}

}  // namespace
}  // namespace plait
