// Whether a machine is the same under shifts of its nodes, and for how many links each of its links then stands.
//
// A shift takes the k-th device of a node to the k-th of another, ranks to ranks, and switches outside of nodes to
// those that the shifted devices have links to. The machine is symmetric if
//   - every node has the devices and links of node 0, in the same order and equally fast, and equally placed ranks;
//   - for each shift by one in one digit, which together generate all shifts, every link that leaves a node, or joins
//     switches, has such a link for its image;
//   - links between network switches, and to NICs, form no circle, so that they leave no choice of ways.
// Then shifted ranks have shifted paths to shifted ranks: inside of a node paths depend on the node's devices and links
// in their order, and outside there is one way.
#pragma once

#include <cstdint>
#include <vector>

#include "model/placement.hpp"
#include "plan/node_shifts.hpp"
#include "topology/paths.hpp"
#include "topology/topology.hpp"

namespace plait {

class MachineSymmetry {
 public:
  // Throws NotSymmetric, which names what differs (plan/fold.hpp).
  MachineSymmetry(const Topology& topology, const Placement& placement, const NodeShifts& shifts);

  // The link direction that stands for this one, and for how many.
  struct LinkOrbit {
    DirectedLink first;
    int size = 1;
  };
  LinkOrbit orbit(const DirectedLink& link) const;
  // The device in a node that stands for this one. It does for as many as there are shifts.
  int representative(int device) const { return representative_[static_cast<size_t>(device)]; }

 private:
  static uint32_t numbered(const DirectedLink& link) {
    return static_cast<uint32_t>(link.link) * 2 + (link.forward ? 0 : 1);
  }

  std::vector<int> representative_;     // of each device
  std::vector<uint32_t> first_, size_;  // of each direction of a link: the one that stands for it, and for how many
};

}  // namespace plait
