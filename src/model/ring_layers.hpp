// The bandwidth that the rings of a layer of a hierarchy get on a machine.
//
// p = p1 x p2 x … x ph. Layer i has rings of the pi ranks r, r + d, r + 2d, …, where d = p1 … p(i-1), all at once. They
// share links: the four GPUs of a node have four rings between nodes, over two HCAs (UEN-21). Where every pair of a
// ring has a link of its own, several ring orders use all of them: six over four GPUs get the bandwidth of three links
// (UEN-22). Racks with less than full bisection narrow rings that cross them (UEN-46, UEN-47).
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "model/placement.hpp"
#include "model/ring_costs.hpp"
#include "model/routes.hpp"
#include "topology/topology.hpp"

namespace plait {

struct RingLayer {
  int stride = 1, length = 1;                      // d and pi
  RingMedium medium = medium_of(LinkKind::kPcie);  // that its rings cross
  double gbps = 0;  // that each ring gets, 10^9 bytes/s; infinite where no link is crossed
};

// Finds layers of one machine, each once. Topology and placement must outlive it and not change.
class RingLayers {
 public:
  // Throws kInvalidArgument unless nodes have equally many ranks, in equal blocks.
  RingLayers(const Topology& topology, const Placement& placement);

  int ranks() const { return ranks_; }
  int ranks_of_node() const { return in_node_; }
  // Throws kInvalidArgument where stride x length does not divide the ranks, or no path joins two of them.
  const RingLayer& layer(int stride, int length);

 private:
  RingLayer find(int stride, int length);
  RingLayer inside_node(int stride, int length);
  RingLayer between_nodes(int stride, int length);
  RingLayer across_nodes(int stride, int length);
  RingLayer anywhere(int stride, int length, int ranks);
  double share_of_racks(int nodes_stride, int nodes_length, int rings_of_node, double gbps) const;

  const Topology& topology_;
  Routes routes_;
  const int ranks_;
  const int in_node_;  // ranks of a node
  std::map<std::pair<int, int>, RingLayer> found_;
};

}  // namespace plait
