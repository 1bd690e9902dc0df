#include <gtest/gtest.h>

#include "topology/bandwidths.hpp"
#include "topology/describe.hpp"
#include "topology/paths.hpp"
#include "topology/readers.hpp"
#include "unit/topology/expect_error.hpp"
#include "unit/topology/parts_of_machines.hpp"
#include "unit/topology/samples.hpp"

namespace plait {
namespace {

std::string system(const std::string& inside) {
  return "<system version=\"1\">\n<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">\n" + inside +
         "\n</cpu></system>";
}
std::string pci(const std::string& bus_id, const std::string& inside, const std::string& more = "") {
  return "<pci busid=\"" + bus_id +
         "\" class=\"0x030200\" vendor=\"0x10de\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\" " + more + ">" +
         inside + "</pci>\n";
}
Topology parse_dump(const std::string& text) { return parse_nccl_xml(text, "dumps/box.xml"); }
std::string refusal_of_dump(const std::string& text) {
  return error_of([&] { parse_dump(text); });
}

TEST(NcclXml, ReadsASwitchedMachine) {
  const Topology box = parse_dump(samples::kXmlSwitched);
  EXPECT_EQ(box.name, "box");
  EXPECT_EQ(box.nodes, 1);
  EXPECT_EQ(devices_of(box, DeviceKind::kCpu).size(), 2u);
  EXPECT_EQ(devices_of(box, DeviceKind::kGpu).size(), 2u);
  EXPECT_EQ(devices_of(box, DeviceKind::kNvSwitch).size(), 1u);
  EXPECT_EQ(devices_of(box, DeviceKind::kPcieSwitch).size(), 1u);
  EXPECT_EQ(devices_of(box, DeviceKind::kNic).size(), 3u);  // eth0 once, although both CPUs list it
  const Device& gpu1 = box.devices[static_cast<size_t>(device_named(box, "gpu1"))];
  EXPECT_EQ(gpu1.bus_id, "0000:2a:00.0");
  const Link* nvlink = find_link(box, "gpu0", "nvswitch0");
  ASSERT_TRUE(nvlink);
  EXPECT_EQ(nvlink->width, 18);
  EXPECT_DOUBLE_EQ(nvlink->gbps, 18 * 26.5625);
  const Link* slot = find_link(box, "gpu0", "pcieswitch0");
  ASSERT_TRUE(slot);
  EXPECT_EQ(slot->width, 16);
  EXPECT_NEAR(slot->gbps, 63.02, 0.01);
  EXPECT_EQ(box.devices[static_cast<size_t>(device_named(box, "nic0"))].port_gbps, 50);
  const Device& two_ports = box.devices[static_cast<size_t>(device_named(box, "nic1"))];
  EXPECT_EQ(two_ports.port_gbps, 25);
  EXPECT_EQ(two_ports.model.substr(0, 13), "mlx5_1 mlx5_2");
  EXPECT_TRUE(find_link(box, "cpu0", "cpu1"));
  EXPECT_EQ(to_text(box, find_groups(box, GroupRule::kNvGroup)), "group 0: gpu0 gpu1\n");
  // Both NICs with their real speeds are there, so that a cluster of such machines can be made.
  EXPECT_NO_THROW(validate(replicate(box, 4)));
}

TEST(NcclXml, ReadsAPowerMachineWithItsCpusInTheGroups) {
  const Topology power = parse_dump(samples::kXmlPower);
  EXPECT_EQ(to_text(power, find_groups(power, GroupRule::kNvGroup)),
            "group 0: gpu0 gpu1 cpu0\ngroup 1: gpu2 gpu3 cpu1\n");
  const Link* to_host = find_link(power, "gpu2", "cpu1");
  ASSERT_TRUE(to_host);
  EXPECT_EQ(to_host->width, 3);  // two entries of one CPU add up
  EXPECT_EQ(find_link(power, "gpu0", "gpu1")->gbps, 75);
  const PathFinder finder(power);
  const auto paths = finder.between(device_named(power, "gpu0"), device_named(power, "gpu1"));
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_EQ(paths[1].gbps, 75);
}

TEST(NcclXml, TakesHiddenSwitchesAndChipToChipLinks) {
  const Topology hidden = parse_dump(
      system(pci("0009:01:00.0",
                 "<gpu dev=\"0\" sm=\"103\"><nvlink target=\"fffffff:ff:ff.0\" count=\"18\" tclass=\"0x068000\"/>"
                 "<c2c bw=\"44712\" count=\"5\"/></gpu>") +
             pci("0008:01:00.0", "<gpu dev=\"1\" sm=\"103\"><nvlink target=\"fffffff:ffff:ff\" count=\"18\"/></gpu>")));
  EXPECT_EQ(find_link(hidden, "gpu0", "nvswitch0")->gbps, 18 * 53.125);
  bool chip_to_chip = false;
  for (const Link& link : hidden.links)
    chip_to_chip |= link.kind == LinkKind::kNvlink && std::abs(link.gbps - 223.56) < 1e-9;
  EXPECT_TRUE(chip_to_chip);
  EXPECT_EQ(find_groups(hidden, GroupRule::kGpuOnly).size(), 1u);
}

TEST(NcclXml, TakesHandWrittenFilesThatListOnlyTheTree) {
  // Files for virtual machines often have PCI devices only, with classes but without GPUs and NICs in them.
  const Topology box = parse_dump(
      "<system version=\"1\"><cpu numaid=\"0\">"
      "<pci busid=\"ffff:ff:01.0\" class=\"0x060400\" link_speed=\"16 GT/s\" link_width=\"16\">"
      "<pci busid=\"0001:00:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"/>"
      "<pci busid=\"0101:00:00.0\" class=\"0x020700\" link_speed=\"16 GT/s\" link_width=\"16\"/>"
      "</pci><pci busid=\"0000:00:1b.0\"/></cpu></system>");
  EXPECT_EQ(devices_of(box, DeviceKind::kGpu).size(), 1u);
  EXPECT_EQ(devices_of(box, DeviceKind::kNic).size(), 1u);
  EXPECT_EQ(devices_of(box, DeviceKind::kPcieSwitch).size(), 1u);
}

TEST(NcclXml, AssumesAFullSlotWhereTheSpeedIsUnknown) {
  const Topology box = parse_dump(
      system("<pci busid=\"0000:01:00.0\" class=\"0x030200\" link_speed=\"Unknown speed\" link_width=\"0\"><gpu "
             "dev=\"0\" sm=\"80\"/></pci>"));
  EXPECT_DOUBLE_EQ(find_link(box, "gpu0", "cpu0")->gbps, pcie_gbps(16, 16));
  expect_contains(find_link(box, "gpu0", "cpu0")->source, "assumed");
}

TEST(NcclXml, NumbersCpusByNumaNodeAndGpusByDevice) {
  const Topology box =
      parse_dump("<system version=\"1\"><cpu numaid=\"3\">" + pci("0000:03:00.0", "<gpu dev=\"5\" sm=\"80\"/>") +
                 "</cpu><cpu numaid=\"1\">" + pci("0000:01:00.0", "<gpu dev=\"2\" sm=\"80\"/>") + "</cpu></system>");
  EXPECT_TRUE(find_link(box, "gpu5", "cpu1"));
  EXPECT_TRUE(find_link(box, "gpu2", "cpu0"));
}

TEST(NcclXml, TakesSeveralHostsAsNodes) {
  const auto host = [](const std::string& hash) {
    return "<cpu host_hash=\"" + hash + "\" numaid=\"0\">" + pci("0000:01:00.0", "<gpu dev=\"0\" sm=\"90\"/>") +
           "<pci busid=\"0000:02:00.0\" class=\"0x020700\"><nic><net name=\"mlx5_0\" "
           "speed=\"200000\"/></nic></pci></cpu>";
  };
  const Topology cluster = parse_dump("<system version=\"1\">" + host("0x1") + host("0x2") + "</system>");
  EXPECT_EQ(cluster.nodes, 2);
  const PathFinder finder(cluster);
  const auto path = finder.best(device_named(cluster, "n0.gpu0"), device_named(cluster, "n1.gpu0"));
  ASSERT_TRUE(path);
  EXPECT_EQ(path->kind, PathKind::kNet);
  EXPECT_EQ(path->gbps, 25);
}

// NCCL writes several hosts into one file if NVLink joins them, through switches that no host shows.
TEST(NcclXml, TakesHostsOfOneNvlinkDomain) {
  const auto host = [](const std::string& hash, const std::string& nvswitch) {
    return "<cpu host_hash=\"" + hash + "\" numaid=\"0\">" +
           pci("0008:01:00.0", "<gpu dev=\"0\" sm=\"100\"><nvlink target=\"" + nvswitch + "\" count=\"18\" " +
                                   "tclass=\"0x068000\"/></gpu>") +
           "</cpu>";
  };
  const auto file = [&](const std::string& nvswitch) {
    return parse_dump("<system version=\"1\">" + host("0x1", nvswitch) + host("0x2", nvswitch) + "</system>");
  };
  const Topology rack = file("fffffff:ffff:ff");
  EXPECT_EQ(to_text(rack, find_groups(rack, GroupRule::kNvGroup)), "group 0: n0.gpu0 n1.gpu0\n");
  EXPECT_EQ(rack.devices[static_cast<size_t>(device_named(rack, "nvswitch0"))].node, kNoNode);
  const PathFinder finder(rack);
  const auto path = finder.best(device_named(rack, "n0.gpu0"), device_named(rack, "n1.gpu0"));
  ASSERT_TRUE(path);
  EXPECT_EQ(path->kind, PathKind::kDirect);
  EXPECT_EQ(path->gbps, 18 * 53.125);
  // Switches that hosts show belong to them.
  EXPECT_EQ(find_groups(file("0000:05:00.0"), GroupRule::kNvGroup).size(), 2u);
}

TEST(NcclXml, RefusesWhatDoesNotFit) {
  const auto nvlink = [](const std::string& attributes) {
    return system(pci("0000:01:00.0", "<gpu dev=\"0\" sm=\"70\">\n<nvlink " + attributes + "/></gpu>"));
  };
  EXPECT_EQ(refusal_of_dump("<graphs version=\"1\"/>"),
            "dumps/box.xml:1: expected <system>, an NCCL topology, found <graphs>");
  expect_contains(refusal_of_dump("<system version=\"1\"/>"), "expected at least one <cpu> in <system>");
  // An unknown target is an error. An unknown switch is not, nor is a GPU that is not in the job.
  expect_contains(refusal_of_dump(nvlink("target=\"0000:99:00.0\" count=\"1\" tclass=\"0x020000\"")),
                  "dumps/box.xml:4: expected the target of an nvlink to be the busid of a <gpu> in this file");
  expect_contains(refusal_of_dump(nvlink("target=\"0000:99:00.0\" count=\"1\"")), "\"0000:99:00.0\" of class \"\"");
  EXPECT_NO_THROW(parse_dump(nvlink("target=\"0000:99:00.0\" count=\"1\" tclass=\"0x068000\"")));
  EXPECT_EQ(refusal_of_dump(nvlink("target=\"0000:99:00.0\" count=\"-2\" tclass=\"0x068000\"")),
            "dumps/box.xml:4: expected count to be a whole number from 1 to 1024, found \"-2\"");
  expect_contains(refusal_of_dump(nvlink("target=\"0000:99:00.0\" count=\"99999999999\" tclass=\"0x068000\"")),
                  "count");
  expect_contains(refusal_of_dump(nvlink("target=\"0000:99:00.0\" count=\"two\" tclass=\"0x068000\"")), "count");
  // A device is below itself, or occurs twice.
  expect_contains(refusal_of_dump(system("<pci busid=\"0000:01:00.0\" class=\"0x060400\">\n" +
                                         pci("0000:01:00.0", "<gpu dev=\"0\"/>") + "</pci>")),
                  "dumps/box.xml:4: expected each busid once, found 0000:01:00.0 again");
  expect_contains(refusal_of_dump(system("<pci class=\"0x030200\"><gpu dev=\"0\"/></pci>")),
                  "expected a busid in <pci>");
  expect_contains(
      refusal_of_dump(system("<pci busid=\"a\" link_speed=\"1e400 GT/s\" link_width=\"16\" class=\"0x030200\"/>")),
      "link_speed");
  expect_contains(
      refusal_of_dump(system("<pci busid=\"a\" link_speed=\"-8 GT/s\" link_width=\"16\" class=\"0x030200\"/>")),
      "link_speed");
  expect_contains(
      refusal_of_dump(system("<pci busid=\"a\" link_speed=\"8 GT/s\" link_width=\"-16\" class=\"0x030200\"/>")),
      "link_width");
}

TEST(NcclXml, NothingIsSaidOfAFileThatSaysEverything) {
  EXPECT_EQ(notes_of(parse_dump(samples::kXmlPower)), "");
  EXPECT_EQ(notes_of(parse_dump(samples::kXmlSwitched)), "");
}

// RCCL's files: AMD's GPUs are not displays, their "sm" is something else, and they have xGMI links.
TEST(NcclXml, ReadsXgmiLinks) {
  const auto apu = [](const std::string& bus_id, int rank, const std::string& links) {
    return "<pci busid=\"" + bus_id + "\" class=\"0x120000\" vendor=\"0x1002\" link_speed=\"32.0 GT/s PCIe\" " +
           "link_width=\"16\"><gpu dev=\"" + std::to_string(rank) + "\" sm=\"94\" gcn=\"gfx942\" rank=\"" +
           std::to_string(rank) + "\">" + links + "</gpu></pci>\n";
  };
  const Topology pair = parse_dump(system(apu("0000:0a:00.0", 0,
                                              "<xgmi target=\"0000:0b:00.0\" count=\"2\" tclass=\"0x120000\"/>\n"
                                              "<xgmi target=\"0000:0c:00.0\" count=\"2\" tclass=\"0x120000\"/>") +
                                          apu("0000:0b:00.0", 1, "<xgmi target=\"0000:0a:00.0\" count=\"2\"/>")));
  const Link* xgmi = nullptr;
  for (const Link& link : pair.links) xgmi = link.kind == LinkKind::kXgmi ? &link : xgmi;
  ASSERT_TRUE(xgmi);
  EXPECT_EQ(xgmi->gbps, 2 * 64);
  EXPECT_EQ(find_groups(pair, GroupRule::kNvGroup).size(), 1u);
  const PathFinder finder(pair);
  EXPECT_EQ(finder.best(device_named(pair, "gpu0"), device_named(pair, "gpu1"))->kind, PathKind::kDirect);
  const std::string& model = pair.devices[static_cast<size_t>(device_named(pair, "gpu0"))].model;
  expect_contains(model, "AMD gfx942");
  EXPECT_EQ(model.find("compute capability"), std::string::npos);
  EXPECT_EQ(notes_of(pair),
            "for plans only: communicators run on NVIDIA's GPUs and on CPUs\n"
            "left out: xGMI links to GPUs that are not in the file: 1 (0000:0a:00.0 to 0000:0c:00.0)\n");
  EXPECT_EQ(parse_machine_json(to_json(pair), "again"), pair);
}

TEST(NcclXml, SaysWhatATemplateWithoutGpusLacks) {
  const std::string bare = "<pci busid=\"0000:0b:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"/>";
  expect_contains(notes_of(parse_dump(system(bare))), "the file says nothing of NVLink: it lists 1 GPU without <gpu>");
  const Topology ids = parse_dump(system("<pci busid=\"0000:00:1b.0\"/><pci busid=\"0000:00:1c.0\"/>"));
  EXPECT_TRUE(devices_of(ids, DeviceKind::kGpu).empty());
  expect_contains(notes_of(ids), "the file lists 2 devices by bus id alone");
}

TEST(NcclXml, LeavesOutNvlinksToGpusThatAreNotInTheJob) {
  const std::string outside = "<nvlink target=\"0000:99:00.0\" count=\"2\" tclass=\"0x030200\"/>";
  const Topology pair =
      parse_dump(system(pci("0000:01:00.0", "<gpu dev=\"0\" sm=\"70\"><nvlink target=\"0000:02:00.0\" count=\"1\"/>" +
                                                outside + "</gpu>") +
                        pci("0000:02:00.0", "<gpu dev=\"1\" sm=\"70\"><nvlink target=\"0000:01:00.0\" count=\"1\"/>" +
                                                outside + "</gpu>")));
  EXPECT_EQ(find_link(pair, "gpu0", "gpu1")->width, 1);
  EXPECT_EQ(pair.links.size(), 3u);
  EXPECT_EQ(notes_of(pair),
            "left out: NVLinks to GPUs that are not in the file: 2 (0000:01:00.0 to 0000:99:00.0, 0000:02:00.0 to "
            "0000:99:00.0)\n");
}

TEST(NcclXml, LeavesOutNvlinksOfAGpuToItself) {
  const Topology alone = parse_dump(
      system(pci("0000:01:00.0",
                 "<gpu dev=\"0\" sm=\"80\"><nvlink target=\"0000:01:00.0\" count=\"12\" tclass=\"0x030200\"/></gpu>")));
  EXPECT_EQ(alone.links.size(), 1u);
  EXPECT_EQ(notes_of(alone), "left out: NVLinks of a GPU to itself: 1 (0000:01:00.0)\n");
}

TEST(NcclXml, CountsNicsThatAreUsedAsOneOnce) {
  const auto nic = [](const std::string& bus_id, const std::string& pci_class, const std::string& name, int megabits) {
    return "<pci busid=\"" + bus_id + "\" class=\"" + pci_class + "\" link_speed=\"32 GT/s\" link_width=\"16\"><nic>" +
           "<net name=\"" + name + "\" speed=\"" + std::to_string(megabits) + "\"/></nic></pci>\n";
  };
  const auto bandwidth = [](const Topology& topology) {
    double sum = 0;
    for (const int i : devices_of(topology, DeviceKind::kNic))
      sum += topology.devices[static_cast<size_t>(i)].port_gbps;
    return sum;
  };
  const std::string parts =
      nic("0000:01:00.0", "0x020000", "a0", 200000) + nic("0000:02:00.0", "0x020000", "a1", 200000);
  const Topology both = parse_dump(system(parts + nic("0000:01:00.8", "0x060400", "a0+a1", 400000)));
  EXPECT_EQ(devices_of(both, DeviceKind::kNic).size(), 2u);
  EXPECT_EQ(bandwidth(both), 50);
  expect_contains(notes_of(both), "left out: NICs that are listed alone and as a part of another: 1 (a0+a1)");
  // Whole adapters are below a CPU if their parts are on different switches.
  const Topology far = parse_dump(system(parts + "<nic><net name=\"a0+a1\" speed=\"400000\"/></nic>"));
  EXPECT_EQ(bandwidth(far), 50);
  // One of the parts alone does not replace the whole.
  const Topology half = parse_dump(
      system(nic("0000:01:00.0", "0x020000", "a0", 200000) + nic("0000:01:00.8", "0x060400", "a0+a1", 400000)));
  EXPECT_EQ(bandwidth(half), 50);
  EXPECT_EQ(notes_of(parse_dump(system(nic("0000:01:00.8", "0x020000", "a0+a1", 400000)))), "");
}

TEST(NcclXml, TakesASpeedThatNoNicHasForUnknown) {
  const Topology box =
      parse_dump(system("<pci busid=\"0000:01:00.0\" class=\"0x020000\" link_speed=\"16 GT/s\" "
                        "link_width=\"16\"><nic><net name=\"hsn0\" speed=\"200000000\"/></nic></pci>"));
  EXPECT_EQ(box.devices[static_cast<size_t>(device_named(box, "nic0"))].port_gbps, 0);
  expect_contains(notes_of(box), "left out: speeds that no NIC has: 1 (hsn0: 200 Tbit/s)");
}

TEST(NcclXml, OrdersGpusByRankWhereEachRankSeesOneGpu) {
  const auto gpu = [](const std::string& bus_id, const std::string& rank) {
    return pci(bus_id, "<gpu dev=\"0\" sm=\"80\" rank=\"" + rank + "\"/>");
  };
  const Topology box =
      parse_dump(system(gpu("0000:c1:00.0", "6") + gpu("0000:41:00.0", "4") + gpu("0000:81:00.0", "5")));
  const auto bus_id = [](const Topology& topology, const std::string& name) {
    return topology.devices[static_cast<size_t>(device_named(topology, name))].bus_id;
  };
  EXPECT_EQ(bus_id(box, "gpu0"), "0000:41:00.0");
  EXPECT_EQ(bus_id(box, "gpu1"), "0000:81:00.0");
  EXPECT_EQ(bus_id(box, "gpu2"), "0000:c1:00.0");
  // Numbers that differ count, whatever the ranks.
  const Topology numbered = parse_dump(system(pci("0000:c1:00.0", "<gpu dev=\"0\" sm=\"80\" rank=\"1\"/>") +
                                              pci("0000:41:00.0", "<gpu dev=\"1\" sm=\"80\" rank=\"0\"/>")));
  EXPECT_EQ(bus_id(numbered, "gpu0"), "0000:c1:00.0");
}

TEST(NcclXml, MarksWhatItAssumes) {
  const std::string unknown = system(
      "<pci busid=\"0000:01:00.0\" class=\"0x030200\" link_speed=\"Unknown\" link_width=\"0\"><gpu dev=\"0\">"
      "<nvlink target=\"fffffff:ff:ff.0\" count=\"18\" tclass=\"0x068000\"/></gpu></pci>");
  const std::string notes = notes_of(parse_dump(unknown));
  expect_contains(notes, "assumed: 25 GB/s for each NVLink lane");
  expect_contains(notes, "assumed: the speed of 1 PCIe link");
  const Topology stated = parse_nccl_xml(unknown, "box.xml", &gpu_model_named("B200"));
  EXPECT_EQ(find_link(stated, "gpu0", "nvswitch0")->gbps, 18 * 53.125);
  EXPECT_EQ(notes_of(stated).find("NVLink"), std::string::npos);
  expect_contains(error_of([] { parse_nccl_xml(samples::kXmlPower, "box.xml", &gpu_model_named("B200")); },
                           ErrorCode::kInvalidArgument),
                  "box.xml: already says which GPUs these are");
}

TEST(NcclXml, RefusesATruncatedFileAtEveryLength) {
  const std::string whole = samples::kXmlPower;
  for (size_t length = 0; length + 2 < whole.size(); length += 7) {
    expect_contains(error_of([&] { parse_dump(whole.substr(0, length)); }), "dumps/box.xml:");
  }
}

}  // namespace
}  // namespace plait
