// The paths from one memory to another, and the links they share (TEM-03).
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "topology/topology.hpp"

namespace plait {

// direct: one hop or one switch. Between GPUs: one NVLink or xGMI link, an NVSwitch, or a PCIe switch that both are on
//         (peer to peer; Path::medium tells it from NVLink). Between a GPU and host memory: no link between sockets is
//         crossed.
// host:   between GPUs: staged in the memory of the CPU nearest to the source, device to host and then host to device.
//         Otherwise: crosses links between sockets.
// relay:  through the memory of another GPU, with an NVLink or xGMI link of its own on both hops. A switch gives no
//         relays: both hops would share the GPU's lanes.
// net:    through NICs to another node.
// An NVSwitch of no node also gives direct paths between GPUs of different nodes.
enum class PathKind : uint8_t { kDirect, kHost, kRelay, kNet };
const char* name(PathKind kind);  // "direct", "host", "relay", "net"

// One of the two directions of a link.
struct DirectedLink {
  int link;      // index into Topology::links
  bool forward;  // from Link::a to Link::b
  auto operator<=>(const DirectedLink&) const = default;
};

struct Path {
  PathKind kind;
  std::vector<int> devices;        // from source to destination, both included
  std::vector<DirectedLink> hops;  // one fewer than devices
  double gbps;                     // of the narrowest link, 10^9 bytes/s; staged chunks reach it once they overlap
  LinkKind medium;                 // of the narrowest link
  int via = -1;                    // host: the CPU that stages; relay: the GPU; else -1
};

// Finds the paths of one topology, which must outlive it and not change. Not for several threads at once.
class PathFinder {
 public:
  explicit PathFinder(const Topology& topology);

  // Returns all paths between two memories, of GPUs or of CPU sockets (which stand for their memory). Direct paths come
  // first, the others by bandwidth; among equal ones host comes before relay, and lower devices come first. There are
  // at most one host path, one relay path for each other GPU, and one net path for each NIC that is nearest to an end.
  // Fails with kInvalidArgument if an end has no memory or both ends are the same.
  std::vector<Path> between(int from, int to) const;
  // Returns the first of between(), or no value if there is no path.
  std::optional<Path> best(int from, int to) const;

 private:
  struct Edge {
    int neighbour;
    DirectedLink hop;
  };
  struct Route {
    std::vector<int> devices;
    std::vector<DirectedLink> hops;
  };
  const Device& device(int index) const { return topology_.devices[static_cast<size_t>(index)]; }
  const Link& link(const DirectedLink& hop) const { return topology_.links[static_cast<size_t>(hop.link)]; }
  template <class EdgesAt, class IsTarget, class MayPass>
  std::vector<Route> nearest(int from, EdgesAt edges_at, IsTarget is_target, MayPass may_pass) const;
  template <class IsTarget>
  std::vector<Route> nearest_on_bus(int from, IsTarget is_target) const;
  template <class MayPass>
  std::optional<Route> route_to(int from, int to, MayPass may_pass) const;
  std::optional<Route> bus_route(int from, int to) const;
  const std::vector<Route>& nearest_nics(int from) const;
  Path make_path(PathKind kind, std::vector<Route> legs, int via = -1) const;
  void add_gpu_direct(int from, int to, std::vector<Path>& paths) const;
  void add_host(int from, int to, std::vector<Path>& paths) const;
  void add_relays(int from, int to, std::vector<Path>& paths) const;
  void add_net(int from, int to, std::vector<Path>& paths) const;

  const Topology& topology_;
  std::vector<std::vector<Edge>> edges_;  // of each device, by neighbour and link
  // The edges to devices that routes may pass. A switch that joins thousands of NICs has few of them.
  std::vector<std::vector<Edge>> onward_;
  mutable std::unordered_map<int, std::vector<Route>> nics_;  // nearest to each device, found once
};

// Returns the links that both paths cross in the same direction, in order of index. Opposite directions do not disturb
// each other.
std::vector<DirectedLink> shared_links(const Path& a, const Path& b);

// "gpu0 -> cpu0 -> gpu1, host, 75 GB/s"
std::string to_text(const Topology& topology, const Path& path);

}  // namespace plait
