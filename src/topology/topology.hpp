// The machine as a graph: devices joined by links (NVG-33). It is a plain value, which readers make and all others only
// read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plait {

// The memory of a CPU socket is a device if its bandwidth is known or assumed. Without such a device it costs nothing.
enum class DeviceKind : uint8_t { kGpu, kCpu, kMemory, kNvSwitch, kPcieSwitch, kNic, kNetSwitch };
inline constexpr int kDeviceKindCount = 7;
// xGMI joins AMD's GPUs as NVLink joins NVIDIA's. Socket links join CPU sockets: X-bus, UPI, QPI, Infinity Fabric.
// Memory links join a CPU socket to its memory.
enum class LinkKind : uint8_t { kNvlink, kXgmi, kPcie, kSocket, kMemory, kNetwork };
inline constexpr int kLinkKindCount = 6;

// "gpu", "cpu", "memory", "nvswitch", "pcieswitch", "nic", "netswitch"; also the start of a device's name.
const char* name(DeviceKind kind);
const char* name(LinkKind kind);  // "nvlink", "xgmi", "pcie", "socket", "memory", "network"
// Parses a name. Returns false if the text names nothing.
bool parse(std::string_view text, DeviceKind& kind);
bool parse(std::string_view text, LinkKind& kind);
// Whether links of this kind were made for GPUs, which load and store in each other's memory over them: NVLink and
// xGMI.
inline bool joins_gpus(LinkKind kind) { return kind == LinkKind::kNvlink || kind == LinkKind::kXgmi; }

// The node of a device that belongs to no node: a network switch, or an NVSwitch outside of nodes that joins GPUs of
// several nodes to one NVLink domain (GB200 NVL72).
inline constexpr int kNoNode = -1;

// Limits of a topology. They are more than any machine has, and small enough that a file of any content is read or
// refused in seconds, in memory that every computer has.
inline constexpr size_t kMostDevices = size_t{1} << 20;
inline constexpr size_t kMostLinks = size_t{1} << 21;
// GPUs that NVLink or xGMI joins into one net, directly or not.
inline constexpr size_t kMostJoinedGpus = 4096;

struct Device {
  DeviceKind kind = DeviceKind::kGpu;
  std::string name;  // unique in the topology: "gpu0", or "n1.gpu0" if there are several nodes
  int node = 0;
  std::string model;     // for people; empty if unknown
  std::string bus_id;    // PCI address "0000:17:00.0" in small letters; empty if unknown
  std::string uuid;      // of a GPU, as its driver gives it: "GPU-5a1b…"; empty if unknown
  std::string fabric;    // of a GPU: the NVLink domain that spans hosts, equal for all in it; empty if there is none
  int cores = 0;         // of a CPU socket; 0 if unknown
  double memory_gb = 0;  // 10^9 bytes of a CPU socket; 0 if unknown
  double port_gbps = 0;  // of a NIC's ports per direction, 10^9 bytes/s; 0 if unknown
  std::string source;    // where these facts come from
  bool operator==(const Device&) const = default;
};

struct Link {
  int a = 0, b = 0;  // indices into Topology::devices; the link works in both directions
  LinkKind kind = LinkKind::kPcie;
  int width = 1;       // lanes
  double gbps = 0;     // 10^9 bytes/s per direction, all lanes together
  std::string source;  // where these facts come from
  bool operator==(const Link&) const = default;
};

// A link to a GPU that is not in the topology, because the process that read it could not see that GPU. merge() uses
// it.
struct OpenLink {
  int device = 0;      // index into Topology::devices
  std::string bus_id;  // of the GPU at the other end
  LinkKind kind = LinkKind::kNvlink;
  int width = 1;
  double gbps = 0;
  std::string source;
  bool operator==(const OpenLink&) const = default;
};

// How copies of a machine are joined into a cluster; see replicate().
struct Network {
  // 0: one switch with full bisection joins all nodes. Otherwise racks have this many nodes. Each rack has a switch of
  // its own, with uplinks to one top switch.
  int rack_nodes = 0;
  // Bandwidth of a rack's uplink over the bandwidth of all NICs of a full rack, in (0, 1] (UEN-29: 1/3).
  double bisection = 1;
  std::string source;
  bool operator==(const Network&) const = default;
};

struct Topology {
  std::string name;
  std::string source;  // where the whole comes from, and what was assumed
  // Notes for users to read before they believe the figures: what the source lacks, and what was left out or assumed.
  std::vector<std::string> notes;
  int nodes = 1;
  std::vector<Device> devices;
  std::vector<Link> links;
  std::vector<OpenLink> open_links;
  Network network;

  int add_device(Device device);  // returns its index
  void add_link(Link link) { links.push_back(std::move(link)); }
  bool operator==(const Topology&) const = default;
};

// Throws kInvalidInput, naming the device or link, unless the following holds. Names are unique and not empty. Every
// device lies in a node below `nodes`; network switches and NVSwitches may lie in none. Links join two different known
// devices of kinds that fit the link's kind, at most once per kind. Widths are at least 1, and bandwidths positive and
// finite. Links other than network links stay inside a node or lead from a node to an NVSwitch of no node. There are no
// more devices, links and joined GPUs than the limits above.
void validate(const Topology& topology);

// Whether facts of a device or link with this source were assumed, since nothing tells them.
inline bool is_assumed(std::string_view source) { return source.starts_with("assumed"); }

// Returns the indices of all devices of one kind, in order; only those of one node if `node` is given.
std::vector<int> devices_of(const Topology& topology, DeviceKind kind);
std::vector<int> devices_of(const Topology& topology, DeviceKind kind, int node);
// Returns the device of that name. Fails with kInvalidArgument and the names of that kind of device.
int device_named(const Topology& topology, std::string_view name);

// Returns `nodes` copies of a machine of one node, joined as topology.network says. Network switches become devices, so
// that it shows which links paths share. An NVSwitch of no node joins all copies. Devices of nodes are renamed
// "n0.gpu0", "n1.gpu0", …; one node stays as it is. Fails with kInvalidArgument if the machine has several nodes
// already, or nothing that could join them, or if copies would exceed the limits of topologies.
Topology replicate(const Topology& machine, int nodes);
// Joins the NICs of a topology that has its nodes but not yet the network. replicate() does this after copying.
void join_nodes(Topology& topology);

// Returns the same machine with only these GPUs (indices of devices, each once, in any order). Everything else stays,
// and the GPUs keep their names and their order.
Topology select(const Topology& topology, const std::vector<int>& gpus);

}  // namespace plait
