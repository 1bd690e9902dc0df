#include <gtest/gtest.h>

#include "topology/describe.hpp"
#include "topology/paths.hpp"
#include "topology/readers.hpp"
#include "unit/topology/expect_error.hpp"
#include "unit/topology/parts_of_machines.hpp"
#include "unit/topology/samples.hpp"

namespace plait {
namespace {

Topology parse_matrix(const std::string& text) { return parse_nvidia_smi(text, "topo.txt"); }
std::string refusal_of_matrix(const std::string& text) {
  return error_of([&] { parse_matrix(text); });
}

TEST(NvidiaSmi, ReadsAnOldText) {
  const Topology half = parse_matrix(samples::kMatrixOld);
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
  const Topology hgx = parse_matrix(samples::kMatrixNew);
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
  // The text without the leading tab, with spaces, and as an indented block with a prompt above it.
  const Topology pair = parse_matrix(
      "$ nvidia-smi topo -m\n"
      "    GPU0 GPU1 CPU Affinity NUMA Affinity\n"
      "    GPU0 X NV4 0-31 N/A\n"
      "    GPU1 NV4 X 0-31 N/A\n");
  EXPECT_EQ(to_text(pair, find_groups(pair, GroupRule::kNvGroup)), "group 0: gpu0 gpu1\n");
  EXPECT_EQ(devices_of(pair, DeviceKind::kCpu).size(), 1u);
  const Topology single = parse_matrix("\tGPU0\tCPU Affinity\nGPU0\t X \t0-7\n");
  EXPECT_EQ(devices_of(single, DeviceKind::kGpu).size(), 1u);
  EXPECT_TRUE(find_link(single, "gpu0", "cpu0"));
}

TEST(NvidiaSmi, PutsGpusOfOneAffinityOnOneCpuAndThoseSetApartOnTwo) {
  const Topology pairs = parse_matrix(
      "GPU0 GPU1 GPU2 GPU3 CPU Affinity\n"
      "GPU0 X NV12 SYS SYS 0-15\nGPU1 NV12 X SYS SYS 0-15\nGPU2 SYS SYS X NV12 16-31\nGPU3 SYS SYS NV12 X 16-31\n");
  EXPECT_EQ(devices_of(pairs, DeviceKind::kCpu).size(), 2u);
  EXPECT_EQ(find_groups(pairs, GroupRule::kGpuOnly).size(), 2u);
  EXPECT_TRUE(find_link(pairs, "gpu3", "cpu1"));
  // In a container all affinities can be the same; SYS still tells the sockets apart.
  const Topology boxed = parse_matrix("GPU0 GPU1 CPU Affinity\nGPU0 X SOC 0-31\nGPU1 SOC X 0-31\n");
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
    return devices_of(parse_matrix(text), DeviceKind::kNvSwitch).size();
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

const std::string kPair = "GPU0 GPU1 CPU Affinity\nGPU0 X NV18 0-31\nGPU1 NV18 X 0-31\n";

TEST(NvidiaSmi, MarksWhatItAssumesUnlessTheModelIsKnown) {
  expect_contains(notes_of(parse_matrix(kPair)),
                  "assumed: 25 GB/s for each NVLink lane and 31.5 GB/s for each PCIe link");
  NvidiaSmiAssumptions stated;
  stated.gpu_model = &gpu_model_named("B200");
  const Topology b200 = parse_nvidia_smi(kPair, "topo.txt", stated);
  EXPECT_EQ(notes_of(b200), "");
  EXPECT_EQ(find_link(b200, "gpu0", "nvswitch0")->gbps, 18 * 53.125);
  EXPECT_NEAR(find_link(b200, "gpu0", "cpu0")->gbps, 63.02, 0.01);
  EXPECT_EQ(find_gpu_model(b200.devices[static_cast<size_t>(device_named(b200, "gpu1"))].model)->processors, 148);
}

TEST(NvidiaSmi, ReadsModelsThatStandBesideTheMatrix) {
  const std::string listed = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\nGPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-2)\n";
  const Topology h100 = parse_matrix(listed + "GPU 0: 41C\n" + kPair);
  EXPECT_EQ(h100.devices[static_cast<size_t>(device_named(h100, "gpu0"))].model, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(find_link(h100, "gpu0", "nvswitch0")->gbps, 18 * 26.5625);
  EXPECT_EQ(notes_of(h100), "");
  NvidiaSmiAssumptions stated;
  stated.gpu_model = &gpu_model_named("B200");
  expect_contains(error_of([&] { parse_nvidia_smi(listed + kPair, "t", stated); }, ErrorCode::kInvalidArgument),
                  "already says which GPUs these are");
  // The model of one of two GPUs is not enough.
  expect_contains(notes_of(parse_matrix("GPU 1: NVIDIA H100 80GB HBM3\n" + kPair)), "assumed: 25 GB/s");
}

TEST(NvidiaSmi, ReadsTheFabricThatStandsBesideTheMatrix) {
  const auto fabric = [](const std::string& uuid) {
    return "    Fabric\n        State : Completed\n        CliqueId                 : 32766\n        ClusterUUID       "
           "       : " +
           uuid + "\n";
  };
  const Topology tray = parse_matrix(fabric("8f1c-01") + fabric("8f1c-01") + kPair);
  EXPECT_EQ(tray.devices[static_cast<size_t>(device_named(tray, "gpu1"))].fabric, "8f1c-01.32766");
  EXPECT_EQ(tray.devices[static_cast<size_t>(device_named(tray, "nvswitch0"))].node, kNoNode);
  for (const std::string& other : {fabric("00000000-0000"), fabric("N/A"), fabric("8f1c-01") + fabric("8f1c-02")}) {
    const Topology box = parse_matrix(other + kPair);
    EXPECT_EQ(box.devices[static_cast<size_t>(device_named(box, "gpu1"))].fabric, "") << other;
    EXPECT_EQ(box.devices[static_cast<size_t>(device_named(box, "nvswitch0"))].node, 0) << other;
  }
}

TEST(NvidiaSmi, IsFoundAnywhereInAReport) {
  std::string report = "<details>\n";
  for (int i = 0; i < 3000; ++i) report += "a line of a report, GPU" + std::to_string(i) + " in it\n";
  report += "GPU0 is the first word here\n" + std::string(100'000, 'x') + "\n";
  std::string after;
  for (int i = 0; i < 3000; ++i) after += "and another\n";
  const Topology pair = parse_topology(report + kPair + after, "report");
  EXPECT_EQ(to_text(pair, find_groups(pair, GroupRule::kNvGroup)), "group 0: gpu0 gpu1\n");
  EXPECT_EQ(parse_topology(std::string(8 << 20, '\n') + kPair, "far").devices.size(), pair.devices.size());
  expect_contains(error_of([&] { parse_topology(report.substr(10), "t"); }), "t:3002: expected the row of GPU0");
}

TEST(NvidiaSmi, TakesAMatrixWhoseRowsOfNicsWereCutOff) {
  const std::string gpus = "GPU0 GPU1 NIC0 NIC1 CPU Affinity\nGPU0 X NV12 PXB SYS 0-31\nGPU1 NV12 X SYS PXB 32-63\n";
  const std::string first_nic = "NIC0 PXB SYS X SYS\n";
  const Topology whole = parse_matrix(gpus + first_nic + "NIC1 SYS PXB SYS X\n");
  const Topology cut = parse_matrix(gpus + "\nLegend:\n  X = Self\n  NIC0: mlx5_0\n");
  EXPECT_EQ(cut.links, whole.links);
  EXPECT_EQ(cut.devices[static_cast<size_t>(device_named(cut, "nic0"))].model, "mlx5_0");
  expect_contains(notes_of(cut), "the rows of NIC0 to NIC1 are missing");
  expect_contains(notes_of(parse_matrix(gpus + first_nic)), "the row of NIC1 is missing");
  EXPECT_EQ(notes_of(whole).find("missing"), std::string::npos);
  expect_contains(refusal_of_matrix("GPU0 GPU1 NIC0\nGPU0 X NV2 PIX\n"), "expected the row of GPU1");
}

// On Grace each GPU's memory is a NUMA node by itself, so that every NIC is SYS away from it.
TEST(NvidiaSmi, PutsNicsOnTheCpusThatGpusOnGraceHave) {
  const Topology tray = parse_matrix(
      "GPU0 GPU1 NIC0 NIC1 CPU Affinity NUMA Affinity GPU NUMA ID\n"
      "GPU0 X NV18 SYS SYS 0-71 0,2-8 4\nGPU1 NV18 X SYS SYS 72-143 1,10-16 12\n"
      "NIC0 SYS SYS X SYS\nNIC1 SYS SYS SYS X\n");
  EXPECT_EQ(devices_of(tray, DeviceKind::kCpu).size(), 2u);
  EXPECT_TRUE(find_link(tray, "gpu0", "cpu0"));
  EXPECT_TRUE(find_link(tray, "gpu1", "cpu1"));
  EXPECT_TRUE(find_link(tray, "nic0", "cpu0"));
  EXPECT_TRUE(find_link(tray, "nic1", "cpu1"));
  // On other machines such NICs are on CPUs without a GPU.
  const Topology box = parse_matrix(
      "GPU0 GPU1 NIC0 NIC1 CPU Affinity NUMA Affinity GPU NUMA ID\n"
      "GPU0 X NV18 SYS SYS 0-15 0 N/A\nGPU1 NV18 X SYS SYS 16-31 1 N/A\nNIC0 SYS SYS X SYS\nNIC1 SYS SYS SYS X\n");
  EXPECT_EQ(devices_of(box, DeviceKind::kCpu).size(), 4u);
}

// A NIC without an affinity of its own does not join CPUs with different ones.
TEST(NvidiaSmi, KeepsGpusOfDifferentAffinitiesApart) {
  const Topology box =
      parse_matrix("GPU0 GPU1 NIC0 CPU Affinity\nGPU0 X NV12 NODE 0-15\nGPU1 NV12 X NODE 16-31\nNIC0 NODE NODE X\n");
  EXPECT_EQ(devices_of(box, DeviceKind::kCpu).size(), 1u);  // the matrix says that all devices are on one
  const Topology apart =
      parse_matrix("GPU0 GPU1 GPU2 CPU Affinity\nGPU0 X NV4 NV4 0-15\nGPU1 NV4 X NV4 16-31\nGPU2 NV4 NV4 X N/A\n");
  EXPECT_EQ(devices_of(apart, DeviceKind::kCpu).size(), 2u);
}

TEST(NvidiaSmi, SaysWhereWhatWasExpectedAndFound) {
  expect_contains(refusal_of_matrix(""), "topo.txt:1: expected the header line");
  EXPECT_EQ(refusal_of_matrix("GPU0 GPU1\nGPU0 X NV2\n"),
            "topo.txt:3: expected the row of GPU1, found the end of the text");
  EXPECT_EQ(refusal_of_matrix("GPU0 GPU1\nGPU0 X NV2\nGPU2 NV2 X\n"),
            "topo.txt:3: expected the row of GPU1, found GPU2");
  EXPECT_EQ(refusal_of_matrix("GPU0 GPU1\nGPU0 X\nGPU1 NV2 X\n"),
            "topo.txt:2: expected 2 cells in the row of GPU0, found 1");
  EXPECT_EQ(refusal_of_matrix("GPU0 GPU1\nGPU0 X FOO\nGPU1 FOO X\n"),
            "topo.txt:2: expected X, NV#, PIX, PXB, PHB, NODE or SYS, found FOO");
  EXPECT_EQ(refusal_of_matrix("GPU0 GPU1\nGPU0 X NV0\nGPU1 NV0 X\n"), "topo.txt:2: expected NV1 to NV1024, found NV0");
  EXPECT_EQ(refusal_of_matrix("GPU0 GPU1\nGPU0 X NV99999999999\nGPU1 X X\n"),
            "topo.txt:2: expected NV1 to NV1024, found NV99999999999");
  EXPECT_EQ(refusal_of_matrix("GPU0 GPU1\nGPU0 X X\nGPU1 X X\n"),
            "topo.txt:2: expected X only on the diagonal, found X");
  EXPECT_EQ(refusal_of_matrix("GPU0 GPU1\nGPU0 SYS SYS\nGPU1 SYS X\n"),
            "topo.txt:2: expected X on the diagonal, found SYS");
  EXPECT_EQ(refusal_of_matrix("GPU0 GPU0\nGPU0 X X\n"),
            "topo.txt:1: expected each device once in the header, found GPU0 again");
  expect_contains(refusal_of_matrix("GPU0 GPU1\nGPU0 X NV2\nGPU1 SYS X\n"),
                  "expected the same cell for GPU0, GPU1 and for GPU1, GPU0");
  expect_contains(refusal_of_matrix("GPU0 X NV2\nGPU1 NV2 X\n"),
                  "expected the header line \"GPU0 GPU1 …\" above the first row");
  std::string wide;
  for (int i = 0; i < 200; ++i) wide += "GPU" + std::to_string(i) + " ";
  expect_contains(refusal_of_matrix(wide), "at most 128 devices");
}

}  // namespace
}  // namespace plait
