#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>

#include "topology/machines.hpp"
#include "topology/readers.hpp"
#include "unit/topology/expect_error.hpp"
#include "unit/topology/samples.hpp"

namespace plait {
namespace {

Topology parse(const std::string& text) { return parse_machine_json(text, "toy.json"); }

// The sample with one piece of text replaced.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = samples::kMachine;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string refusal(const std::string& from, const std::string& to) {
  return error_of([&] { parse(changed(from, to)); });
}

TEST(MachineJson, ReadsEverything) {
  const Topology toy = parse(samples::kMachine);
  EXPECT_EQ(toy.name, "toy");
  EXPECT_EQ(toy.source, "a test");
  ASSERT_EQ(toy.devices.size(), 7u);
  EXPECT_EQ(toy.devices[1].name, "cpu1");
  EXPECT_EQ(toy.devices[1].cores, 8);
  EXPECT_EQ(toy.devices[1].memory_gb, 64.5);
  EXPECT_EQ(toy.devices[3].bus_id, "0000:02:00.0");
  EXPECT_EQ(toy.devices[6].port_gbps, 12.5);
  EXPECT_EQ(toy.devices[6].source, "measured");
  ASSERT_EQ(toy.links.size(), 7u);
  EXPECT_EQ(toy.links[0], (Link{2, 3, LinkKind::kNvlink, 2, 50, "paper"}));
  EXPECT_EQ(toy.links[6], (Link{0, 1, LinkKind::kSocket, 1, 38.4, ""}));
  EXPECT_EQ(toy.network, (Network{4, 0.5, "assumed"}));
}

TEST(MachineJson, SurvivesARoundTrip) {
  const Topology toy = parse(samples::kMachine);
  EXPECT_EQ(parse(to_json(toy)), toy);
  EXPECT_EQ(to_json(parse(to_json(toy))), to_json(toy));
  const Topology cluster = replicate(toy, 6);
  EXPECT_EQ(parse(to_json(cluster)), cluster);
  for (const std::string& name : machine_names()) {
    EXPECT_EQ(parse(to_json(machine(name))), machine(name)) << name;
    if (machine(name).nodes == 1) {
      EXPECT_EQ(parse(to_json(machine(name, 2))), machine(name, 2)) << name;
    }
  }
}

TEST(MachineJson, KeepsNvlinkDomains) {
  const std::string two_hosts = R"({"format": "plait-machine 1", "name": "domain", "nodes": 2, "devices": [
    {"kind": "gpu", "names": ["n0.gpu0"], "fabric": "1.2"}, {"kind": "gpu", "node": 1, "names": ["n1.gpu0"], "fabric": "1.2"},
    {"kind": "nvswitch", "node": -1, "names": ["nvswitch0"]}],
    "links": [{"kind": "nvlink", "gbps": 900, "pairs": [["n0.gpu0", "nvswitch0"], ["n1.gpu0", "nvswitch0"]]}]})";
  const Topology domain = parse(two_hosts);
  EXPECT_EQ(domain.devices[2].node, kNoNode);
  EXPECT_EQ(domain.devices[1].fabric, "1.2");
  EXPECT_EQ(parse(to_json(domain)), domain);
  std::string gpu_of_no_node = two_hosts;
  gpu_of_no_node.replace(gpu_of_no_node.find("\"node\": 1"), 9, "\"node\": -1");
  expect_contains(error_of([&] { parse(gpu_of_no_node); }), "expected an integer from 0 to 1, found the number -1");
}

TEST(MachineJson, KeepsUuidsAndOpenLinks) {
  std::string text = changed("\"bus_ids\":", "\"uuids\": [\"GPU-a\", \"GPU-b\", \"GPU-c\"], \"bus_ids\":");
  text.insert(text.find("\"network\""),
              "\"open_links\": [{\"kind\": \"nvlink\", \"width\": 2, \"gbps\": 50, \"pairs\": "
              "[[\"gpu1\", \"0000:09:00.0\"], [\"gpu2\", \"0000:09:00.0\"]]}],\n  ");
  const Topology toy = parse(text);
  EXPECT_EQ(toy.devices[3].uuid, "GPU-b");
  ASSERT_EQ(toy.open_links.size(), 2u);
  EXPECT_EQ(toy.open_links[1], (OpenLink{4, "0000:09:00.0", LinkKind::kNvlink, 2, 50, ""}));
  EXPECT_EQ(parse(to_json(toy)), toy);
  // The open links of GPUs that stay, stay too.
  const Topology part = select(toy, {4});
  ASSERT_EQ(part.open_links.size(), 1u);
  EXPECT_EQ(part.devices[static_cast<size_t>(part.open_links[0].device)].name, "gpu2");
  EXPECT_TRUE(replicate(toy, 2).open_links.empty());
  expect_contains(refusal("\"bus_ids\":", "\"uuids\": [], \"bus_ids\":"), "expected one UUID for each of the 3 names");
  expect_contains(refusal("\"network\":",
                          "\"open_links\": [{\"kind\": \"nvlink\", \"gbps\": 50, \"pairs\": [[\"cpu0\", \"x\"]]}],"
                          " \"network\":"),
                  "open link to \"x\": needs a GPU");
}

TEST(MachineJson, KeepsNotes) {
  const Topology toy =
      parse(changed("\"source\": \"a test\",", "\"source\": \"a test\", \"notes\": [\"one\", \"two\"],"));
  EXPECT_EQ(toy.notes, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(parse(to_json(toy)), toy);
  EXPECT_EQ(replicate(toy, 2).notes, toy.notes);
  expect_contains(refusal("\"source\": \"a test\",", "\"notes\": [\"\\u001b\"],"), "a name without control characters");
}

TEST(MachineJson, TakesTheModelThatIsStatedWhereItSaysNone) {
  const Topology toy = parse_topology(samples::kMachine, "toy.json", &gpu_model_named("L40S"));
  EXPECT_EQ(toy.devices[static_cast<size_t>(device_named(toy, "gpu2"))].model, "NVIDIA L40S");
  expect_contains(
      error_of([&] { parse_topology(to_json(toy), "t.json", &gpu_model_named("A100")); }, ErrorCode::kInvalidArgument),
      "t.json: already says which GPUs these are");
}

TEST(MachineJson, SaysWhereWhatWasExpectedAndFound) {
  EXPECT_EQ(refusal("\"width\": 2", "\"width\": -2"),
            "toy.json:12: expected an integer from 1 to 1048576, found the number -2");
  EXPECT_EQ(refusal("\"width\": 2", "\"width\": 2.5"),
            "toy.json:12: expected an integer from 1 to 1048576, found the number 2.5");
  EXPECT_EQ(refusal("\"gbps\": 50", "\"gbps\": 0"),
            "toy.json:12: expected a bandwidth of 0.000001 or more, found the number 0");
  expect_contains(refusal("\"gbps\": 50", "\"gbps\": 5e-324"), "toy.json:12: expected a bandwidth of 0.000001 or more");
  EXPECT_EQ(refusal("\"gbps\": 38.4", "\"gbps\": \"fast\""),
            "toy.json:15: expected a number, found the string \"fast\"");
  EXPECT_EQ(refusal("\"gbps\": 38.4", "\"gpbs\": 38.4"),
            "toy.json:15: expected one of the members kind, width, gbps, pairs, source, found \"gpbs\"");
  EXPECT_EQ(refusal("[\"cpu1\", \"gpu2\"]", "[\"cpu1\", \"gpu9\"]"),
            "toy.json:13: expected the name of a device of this machine, found the string \"gpu9\"");
  EXPECT_EQ(refusal("[\"cpu1\", \"gpu2\"]", "[\"cpu1\", \"cpu1\"]"),
            "toy.json:13: expected two different devices, found an array");
  EXPECT_EQ(refusal("[\"cpu1\", \"gpu2\"]", "[\"cpu1\"]"),
            "toy.json:13: expected an array of two device names, found an array");
  EXPECT_EQ(refusal("\"gpu1\", \"gpu2\"]", "\"gpu1\", \"gpu1\"]"),
            "toy.json:7: expected a name that no other device has, found the string \"gpu1\"");
  EXPECT_EQ(refusal("\"kind\": \"nic\"", "\"kind\": \"nik\""),
            "toy.json:9: expected gpu, cpu, memory, nvswitch, pcieswitch, nic or netswitch, found the string \"nik\"");
  EXPECT_EQ(refusal("\"plait-machine 1\"", "\"plait-machine 9\""),
            "toy.json:2: expected \"plait-machine 1\", found the string \"plait-machine 9\"");
  EXPECT_EQ(refusal("\"bus_ids\": [\"0000:01:00.0\", ", "\"bus_ids\": ["),
            "toy.json:7: expected one bus id for each of the 3 names, found an array");
  expect_contains(refusal("\"gbps\": 50", "\"gbps\": 1e999"), "toy.json:12: expected a number that a double can hold");
  expect_contains(refusal("\"gbps\": 50", "\"gbps\": NaN"), "toy.json:12: expected a value, found 'N'");
  expect_contains(refusal("\"bisection\": 0.5", "\"bisection\": 1.5"), "a fraction above 0 and at most 1");
  expect_contains(refusal("\"kind\": \"socket\"", "\"kind\": \"network\""), "toy.json:1: ");
  expect_contains(error_of([] { parse("[]"); }), "toy.json:1: expected an object, a machine, found an array");
  expect_contains(error_of([] { parse("{}"); }), "expected a member \"format\"");
}

TEST(MachineJson, RefusesATruncatedFileAtEveryLength) {
  const std::string whole = samples::kMachine;
  const size_t end = whole.find_last_of('}');
  for (size_t length = 0; length <= end; ++length) {
    expect_contains(error_of([&] { parse(whole.substr(0, length)); }), "toy.json:");
  }
}

class Files : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("plait-readers-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }
  std::filesystem::path folder_;
};

TEST_F(Files, AreRecognisedByTheirContent) {
  EXPECT_EQ(read_topology(write("any.txt", samples::kMachine)).name, "toy");
  EXPECT_EQ(read_topology(write("big.box.xml", samples::kXmlSwitched)).name, "big.box");
  EXPECT_EQ(read_topology(write("matrix", samples::kMatrixNew)).name, "matrix");
  EXPECT_EQ(read_topology(write("bom", std::string("\xef\xbb\xbf\n") + samples::kXmlPower)).name, "bom");
}

TEST_F(Files, ThatCannotBeReadSayWhy) {
  const auto refused = [&](const std::string& path) { return error_of([&] { read_topology(path); }); };
  expect_contains(refused((folder_ / "missing").string()), "missing: cannot be read: No such file or directory");
  expect_contains(refused(folder_.string()), "Is a directory; name a file in it");
  expect_contains(refused(write("empty", "")), "empty:1: expected a machine in JSON, an NCCL topology file (XML) or");
  expect_contains(refused(write("spaces", " \n\t\n")), "found nothing");
  expect_contains(refused(write("utf16", std::string("\xff\xfeG\0P\0", 6))),
                  "found UTF-16; save the file again as UTF-8");
  std::string junk;
  std::mt19937 random(3);
  for (int i = 0; i < 100'000; ++i) junk += static_cast<char>(random());
  junk[0] = 'x';
  expect_contains(refused(write("junk", junk)), "junk:1: expected a machine");
}

TEST_F(Files, OfAHundredMegabytesOfGarbageAreRefusedQuickly) {
  const std::string path = write("huge", "");
  {
    std::ofstream out(path, std::ios::binary);
    const std::string block(1 << 20, 'G');
    for (int i = 0; i < 100; ++i) out << block;
  }
  const auto start = std::chrono::steady_clock::now();
  expect_contains(error_of([&] { read_topology(path); }), "expected at most 67108864 bytes, found more");
  // Below the limit on the size, each reader gives up at the first error.
  for (const char* first : {"{", "<", "GPU0 "}) {
    std::string text = first;
    text.append(60u << 20, 'G');
    error_of([&] { parse_topology(text, "huge"); });
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 20);
}

}  // namespace
}  // namespace plait
