// Layers of hierarchies on machines.
#include "model/ring_layers.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "plan/traffic.hpp"

namespace plait {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// Ranks of each node, which have to be equal blocks of neighbouring ranks.
int ranks_of_each_node(const Topology& topology, const Placement& placement) {
  const std::vector<int> node_of = arguments_for(topology, placement, Collective::kAllReduce).node_of;
  const int ranks = static_cast<int>(placement.device_of_rank.size());
  if (node_of.empty()) return ranks;
  const int in_node = static_cast<int>(std::count(node_of.begin(), node_of.end(), node_of[0]));
  for (int rank = 0; rank < ranks; ++rank) {
    const int first = rank / in_node * in_node;
    const bool starts = rank % in_node == 0;
    if (node_of[rank] == node_of[first] && (!starts || rank == 0 || node_of[rank] != node_of[rank - 1])) continue;
    fail(ErrorCode::kInvalidArgument, "hierarchies by closed form need nodes of equally many ranks; rank ", rank,
         " of ", topology.name, " breaks the blocks of ", in_node, "; use --nodes and -n so that nodes are equal");
  }
  return in_node;
}

// Bytes that cross links while each of some ranks sends one byte to another.
class RingTraffic {
 public:
  explicit RingTraffic(Routes& routes) : routes_(routes), bytes_(routes.topology().links.size()) {}

  void send(int from, int to, double bytes) {
    const int a = routes_.device_of({from}), b = routes_.device_of({to});
    const std::vector<Path>& paths = routes_.between(a, b);
    for (const Path& path : paths) {
      for (const DirectedLink& hop : path.hops) {
        bytes_[static_cast<size_t>(hop.link)][hop.forward ? 0 : 1] += bytes / static_cast<double>(paths.size());
      }
    }
  }

  // Bandwidth of each sender when all send the same number of bytes: the slowest link sets the pace.
  double gbps() const {
    double least = kNoLimit;
    for (size_t link = 0; link < bytes_.size(); ++link) {
      const double most = std::max(bytes_[link][0], bytes_[link][1]);
      if (most > 0) least = std::min(least, routes_.topology().links[link].gbps / most);
    }
    return least;
  }

 private:
  Routes& routes_;
  std::vector<std::array<double, 2>> bytes_;  // of each link, in both directions
};

double node_gbps(const Topology& topology) {
  double gbps = 0;
  for (const int nic : devices_of(topology, DeviceKind::kNic, 0)) {
    gbps += topology.devices[static_cast<size_t>(nic)].port_gbps;
  }
  return gbps;
}

}  // namespace

RingLayers::RingLayers(const Topology& topology, const Placement& placement)
    : topology_(topology),
      routes_(topology, placement),
      ranks_(static_cast<int>(placement.device_of_rank.size())),
      in_node_(ranks_of_each_node(topology, placement)) {}

const RingLayer& RingLayers::layer(int stride, int length) {
  if (stride < 1 || length < 1 || ranks_ % stride != 0 || ranks_ / stride % length != 0) {
    fail(ErrorCode::kInvalidArgument, "rings of ", counted(length, "rank"), ", ", stride, " apart, do not divide ",
         counted(ranks_, "rank"));
  }
  const auto found = found_.find({stride, length});
  if (found != found_.end()) return found->second;
  RingLayer layer = find(stride, length);
  layer.stride = stride;
  layer.length = length;
  return found_.emplace(std::pair(stride, length), layer).first->second;
}

RingLayer RingLayers::find(int stride, int length) {
  if (length == 1) return {stride, 1, medium_of(LinkKind::kMemory), kNoLimit};
  if (in_node_ % (stride * length) == 0) return inside_node(stride, length);
  if (stride % in_node_ == 0) return between_nodes(stride, length);
  if (in_node_ % stride == 0 && stride * length % in_node_ == 0) return across_nodes(stride, length);
  return anywhere(stride, length, std::min(ranks_, std::lcm(stride * length, in_node_)));
}

RingLayer RingLayers::inside_node(int stride, int length) {
  RingLayer layer = anywhere(stride, length, in_node_);
  // Each pair needs a link of its own. Then all ring orders together load each link alike.
  std::optional<double> each;
  for (int a = 0; a < length; ++a) {
    for (int b = a + 1; b < length; ++b) {
      const auto& paths = routes_.between(routes_.device_of({a * stride}), routes_.device_of({b * stride}));
      if (paths.size() != 1 || paths[0].hops.size() != 1 || !joins_gpus(paths[0].medium)) return layer;
      if (each && *each != paths[0].gbps) return layer;
      each = paths[0].gbps;
    }
  }
  if (each) layer.gbps = std::max(layer.gbps, (length - 1) * *each);
  return layer;
}

RingLayer RingLayers::between_nodes(int stride, int length) {
  RingTraffic traffic(routes_);
  for (int rank = 0; rank < in_node_; ++rank) traffic.send(rank, rank + stride, 1);
  RingLayer layer;
  layer.medium = medium_of(LinkKind::kNetwork);
  layer.gbps = share_of_racks(stride / in_node_, length, in_node_, traffic.gbps());
  return layer;
}

RingLayer RingLayers::across_nodes(int stride, int length) {
  const double of_node = between_nodes(in_node_, 2).gbps * in_node_;  // all NICs together
  const RingLayer inside = layer(stride, in_node_ / stride);
  RingLayer layer;
  layer.medium = kMixed;
  layer.gbps = share_of_racks(1, stride * length / in_node_, stride, std::min(inside.gbps, of_node / stride));
  return layer;
}

// Rings in the order of ranks, one way or both ways with half of the message each.
RingLayer RingLayers::anywhere(int stride, int length, int ranks) {
  RingTraffic forward(routes_), both(routes_);
  std::optional<LinkKind> medium;
  bool leaves_node = false;
  double narrowest = kNoLimit;
  for (int rank = 0; rank < ranks; ++rank) {
    const int place = rank / stride % length;
    const int next = rank + (place + 1 < length ? stride : -place * stride);
    forward.send(rank, next, 1);
    both.send(rank, next, 0.5);
    both.send(next, rank, 0.5);
    leaves_node |= rank / in_node_ != next / in_node_;
    for (const Path& path : routes_.between(routes_.device_of({rank}), routes_.device_of({next}))) {
      if (path.gbps < narrowest) medium = path.medium;
      narrowest = std::min(narrowest, path.gbps);
    }
  }
  RingLayer layer;
  layer.medium = leaves_node ? kMixed : medium_of(medium.value_or(LinkKind::kMemory));
  layer.gbps = std::max(forward.gbps(), both.gbps());
  return layer;
}

// Rings leave a rack as often as they step over its border; its uplink is shared by all that do.
double RingLayers::share_of_racks(int nodes_stride, int nodes_length, int rings_of_node, double gbps) const {
  const int rack = topology_.network.rack_nodes;
  if (rack == 0 || nodes_stride * nodes_length <= rack) return gbps;
  const double uplink = topology_.network.bisection * rack * node_gbps(topology_);
  const double leaving = static_cast<double>(std::min(nodes_stride, rack)) * rings_of_node;
  return uplink > 0 ? std::min(gbps, uplink / leaving) : gbps;
}

}  // namespace plait
