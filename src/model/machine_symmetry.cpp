// Finds the images of devices and links.
#include "model/machine_symmetry.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "plan/fold.hpp"

namespace plait {
namespace {

constexpr int kUnknown = -1;

template <class... Parts>
[[noreturn]] void refuse_symmetry(const Topology& topology, const Parts&... parts) {
  throw NotSymmetric(ErrorCode::kInvalidArgument, join(topology.name, " is not symmetric: ", parts...));
}

// Sets of things that are joined two by two.
class JoinedSets {
 public:
  explicit JoinedSets(size_t things) : parent_(things) { std::iota(parent_.begin(), parent_.end(), 0u); }

  uint32_t first_of(uint32_t thing) {
    while (parent_[thing] != thing) thing = parent_[thing] = parent_[parent_[thing]];
    return thing;
  }
  // The lower one stands for both. False where they were joined already.
  bool join(uint32_t a, uint32_t b) {
    a = first_of(a);
    b = first_of(b);
    if (a == b) return false;
    parent_[std::max(a, b)] = std::min(a, b);
    return true;
  }

 private:
  std::vector<uint32_t> parent_;
};

// Devices and links by their nodes.
struct NodeGraph {
  std::vector<std::vector<int>> devices, links;    // of each node, in order; links that stay in it
  std::vector<int> place;                          // of each device in its node; kUnknown: outside of nodes
  std::vector<int> outside_links;                  // all others
  std::vector<std::vector<int>> outside_links_of;  // each device

  explicit NodeGraph(const Topology& topology)
      : devices(static_cast<size_t>(topology.nodes)),
        links(static_cast<size_t>(topology.nodes)),
        outside_links_of(topology.devices.size()) {
    for (size_t i = 0; i < topology.devices.size(); ++i) {
      const int node = topology.devices[i].node;
      place.push_back(node == kNoNode ? kUnknown : static_cast<int>(devices[static_cast<size_t>(node)].size()));
      if (node != kNoNode) devices[static_cast<size_t>(node)].push_back(static_cast<int>(i));
    }
    for (size_t i = 0; i < topology.links.size(); ++i) {
      const Link& link = topology.links[i];
      const int node = topology.devices[static_cast<size_t>(link.a)].node;
      if (node != kNoNode && topology.devices[static_cast<size_t>(link.b)].node == node) {
        links[static_cast<size_t>(node)].push_back(static_cast<int>(i));
        continue;
      }
      outside_links.push_back(static_cast<int>(i));
      outside_links_of[static_cast<size_t>(link.a)].push_back(static_cast<int>(i));
      outside_links_of[static_cast<size_t>(link.b)].push_back(static_cast<int>(i));
    }
  }
};

std::string link_text(const Topology& topology, const Link& link) {
  return join("the ", name(link.kind), " link of ", topology.devices[static_cast<size_t>(link.a)].name, " and ",
              topology.devices[static_cast<size_t>(link.b)].name, ", ", link.gbps, " GB/s");
}

class NodeComparison {
 public:
  NodeComparison(const Topology& topology, const NodeGraph& graph) : topology_(topology), graph_(graph) {}

  void run() const {
    for (size_t node = 1; node < graph_.devices.size(); ++node) {
      if (graph_.devices[node].size() != graph_.devices[0].size() ||
          graph_.links[node].size() != graph_.links[0].size()) {
        refuse_symmetry(topology_, "node ", node, " has ", graph_.devices[node].size(), " devices and ",
                        graph_.links[node].size(), " links, node 0 has ", graph_.devices[0].size(), " and ",
                        graph_.links[0].size());
      }
      for (size_t i = 0; i < graph_.devices[0].size(); ++i) {
        compare_devices(graph_.devices[0][i], graph_.devices[node][i]);
      }
      for (size_t i = 0; i < graph_.links[0].size(); ++i) compare_links(graph_.links[0][i], graph_.links[node][i]);
    }
  }

 private:
  void compare_devices(int first, int other) const {
    const Device& a = topology_.devices[static_cast<size_t>(first)];
    const Device& b = topology_.devices[static_cast<size_t>(other)];
    const auto facts = [](const Device& it) {
      return std::tie(it.kind, it.model, it.cores, it.memory_gb, it.port_gbps);
    };
    if (facts(a) != facts(b)) refuse_symmetry(topology_, b.name, " is not as ", a.name, " is");
  }

  void compare_links(int first, int other) const {
    const Link& a = topology_.links[static_cast<size_t>(first)];
    const Link& b = topology_.links[static_cast<size_t>(other)];
    const auto facts = [&](const Link& it) {
      return std::tuple(graph_.place[static_cast<size_t>(it.a)], graph_.place[static_cast<size_t>(it.b)], it.kind,
                        it.width, it.gbps);
    };
    if (facts(a) != facts(b)) {
      refuse_symmetry(topology_, link_text(topology_, b), ", is not as ", link_text(topology_, a));
    }
  }

  const Topology& topology_;
  const NodeGraph& graph_;
};

void check_ranks(const Topology& topology, const NodeGraph& graph, const Placement& placement,
                 const NodeShifts& shifts) {
  const auto place_of = [&](const std::vector<int>& devices, int rank) {
    const int device = devices[static_cast<size_t>(rank)];
    return std::pair(topology.devices[static_cast<size_t>(device)].node, graph.place[static_cast<size_t>(device)]);
  };
  for (int rank = 0; rank < shifts.ranks(); ++rank) {
    const int node = shifts.node_of(rank), first = rank % shifts.ranks_per_node();
    for (const auto* devices : {&placement.device_of_rank, &placement.cpu_of_rank}) {
      if (place_of(*devices, rank) == std::pair(node, place_of(*devices, first).second)) continue;
      refuse_symmetry(topology, "rank ", rank, " is not placed on node ", node, " as rank ", first, " is on node 0");
    }
  }
}

void check_network(const Topology& topology, const NodeGraph& graph) {
  JoinedSets joined(topology.devices.size());
  for (const int index : graph.outside_links) {
    const Link& link = topology.links[static_cast<size_t>(index)];
    if (link.kind != LinkKind::kNetwork || joined.join(static_cast<uint32_t>(link.a), static_cast<uint32_t>(link.b)))
      continue;
    refuse_symmetry(topology, link_text(topology, link), ", closes a circle, so that there are several ways");
  }
}

// The image of devices and of links that leave nodes, under one shift.
class ShiftImage {
 public:
  ShiftImage(const Topology& topology, const NodeGraph& graph, const NodeShifts& shifts, int generator)
      : topology_(topology), graph_(graph), device_(topology.devices.size(), kUnknown) {
    for (size_t node = 0; node < graph.devices.size(); ++node) {
      const auto image = static_cast<size_t>(shifts.shifted_node(static_cast<int>(node), generator));
      for (size_t i = 0; i < graph.devices[node].size(); ++i) set(graph.devices[node][i], graph.devices[image][i]);
    }
    for (const int index : graph.outside_links) {
      const Link& link = topology.links[static_cast<size_t>(index)];
      link_at_[key(link.a, link.b, link.kind)] = index;
    }
    for (size_t next = 0; next < known_.size(); ++next) follow_links_of(known_[next]);
  }

  // The image of a direction of a link that leaves a node.
  DirectedLink of(int index) const {
    const Link& link = topology_.links[static_cast<size_t>(index)];
    const int a = image_of(link.a), b = image_of(link.b);
    const auto found = link_at_.find(key(a, b, link.kind));
    if (found == link_at_.end()) {
      refuse_symmetry(topology_, link_text(topology_, link), ", has no like from ", name_of(a), " to ", name_of(b));
    }
    const Link& image = topology_.links[static_cast<size_t>(found->second)];
    if (std::tie(image.gbps, image.width) != std::tie(link.gbps, link.width)) {
      refuse_symmetry(topology_, link_text(topology_, image), ", is not as ", link_text(topology_, link));
    }
    return {found->second, image.a == a};
  }

 private:
  static uint64_t key(int a, int b, LinkKind kind) {
    constexpr int kDeviceBits = 24, kKindBits = 4;
    const auto low = static_cast<uint64_t>(std::min(a, b)), high = static_cast<uint64_t>(std::max(a, b));
    return (low << kDeviceBits | high) << kKindBits | static_cast<uint64_t>(kind);
  }
  const std::string& name_of(int device) const { return topology_.devices[static_cast<size_t>(device)].name; }

  void set(int device, int image) {
    device_[static_cast<size_t>(device)] = image;
    known_.push_back(device);
  }

  int image_of(int device) const {
    const int image = device_[static_cast<size_t>(device)];
    if (image == kUnknown) refuse_symmetry(topology_, "no way leads from a node to ", name_of(device));
    return image;
  }

  int other_end(int link, int device) const {
    const Link& it = topology_.links[static_cast<size_t>(link)];
    return it.a == device ? it.b : it.a;
  }

  // Devices outside of nodes are taken to what is at the ends of the image's links, in their order.
  void follow_links_of(int device) {
    const int image = device_[static_cast<size_t>(device)];
    const std::vector<int>& links = graph_.outside_links_of[static_cast<size_t>(device)];
    const std::vector<int>& images = graph_.outside_links_of[static_cast<size_t>(image)];
    if (links.size() != images.size()) {
      refuse_symmetry(topology_, name_of(image), " has ", images.size(), " links to others, ", name_of(device), " has ",
                      links.size());
    }
    for (size_t i = 0; i < links.size(); ++i) {
      const int end = other_end(links[i], device);
      if (device_[static_cast<size_t>(end)] != kUnknown) continue;
      const int end_image = other_end(images[i], image);
      if (graph_.place[static_cast<size_t>(end_image)] != kUnknown || !taken_.emplace(end_image, end).second ||
          topology_.devices[static_cast<size_t>(end)].kind != topology_.devices[static_cast<size_t>(end_image)].kind) {
        refuse_symmetry(topology_, name_of(end_image), " is not to ", name_of(image), " as ", name_of(end), " is to ",
                        name_of(device));
      }
      set(end, end_image);
    }
  }

  const Topology& topology_;
  const NodeGraph& graph_;
  std::vector<int> device_;  // images
  std::vector<int> known_;   // devices that have one, in the order in which they were found
  std::unordered_map<int, int> taken_;
  std::unordered_map<uint64_t, int> link_at_;
};

}  // namespace

MachineSymmetry::MachineSymmetry(const Topology& topology, const Placement& placement, const NodeShifts& shifts) {
  if (topology.nodes != shifts.nodes() || static_cast<int>(placement.device_of_rank.size()) != shifts.ranks()) {
    refuse_symmetry(topology, shifts.ranks(), " ranks on ", shifts.nodes(), " nodes are not those of its ",
                    topology.nodes, " nodes");
  }
  const NodeGraph graph(topology);
  NodeComparison(topology, graph).run();
  check_ranks(topology, graph, placement, shifts);
  check_network(topology, graph);
  representative_.resize(topology.devices.size());
  std::iota(representative_.begin(), representative_.end(), 0);
  first_.resize(topology.links.size() * 2);
  size_.resize(first_.size(), 1);
  for (size_t node = 0; node < graph.devices.size(); ++node) {
    const auto like = static_cast<size_t>(shifts.representative_node(static_cast<int>(node)));
    for (size_t i = 0; i < graph.devices[node].size(); ++i) {
      representative_[static_cast<size_t>(graph.devices[node][i])] = graph.devices[like][i];
    }
    for (size_t i = 0; i < graph.links[node].size(); ++i) {
      for (const bool forward : {true, false}) {
        const uint32_t number = numbered({graph.links[node][i], forward});
        first_[number] = numbered({graph.links[like][i], forward});
        size_[number] = static_cast<uint32_t>(shifts.shifts());
      }
    }
  }
  JoinedSets orbits(first_.size());
  for (const int generator : shifts.generators()) {
    const ShiftImage image(topology, graph, shifts, generator);
    for (const int link : graph.outside_links) {
      const DirectedLink to = image.of(link);
      orbits.join(numbered({link, true}), numbered(to));
      orbits.join(numbered({link, false}), numbered({to.link, !to.forward}));
    }
  }
  std::vector<uint32_t> counts(first_.size());
  for (const int link : graph.outside_links) {
    for (const bool forward : {true, false}) ++counts[orbits.first_of(numbered({link, forward}))];
  }
  for (const int link : graph.outside_links) {
    for (const bool forward : {true, false}) {
      const uint32_t number = numbered({link, forward});
      first_[number] = orbits.first_of(number);
      size_[number] = counts[first_[number]];
    }
  }
}

MachineSymmetry::LinkOrbit MachineSymmetry::orbit(const DirectedLink& link) const {
  const uint32_t number = numbered(link);
  const uint32_t first = first_[number];
  return {{static_cast<int>(first / 2), first % 2 == 0}, static_cast<int>(size_[number])};
}

}  // namespace plait
