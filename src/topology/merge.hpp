// Combines the views of several processes on one or more hosts into one topology.
#pragma once

#include <string>
#include <vector>

#include "topology/topology.hpp"

namespace plait {

// The view of one process: the live topology of its host. In containers it may have only some of the GPUs.
struct HostView {
  std::string host;   // names the host: equal for all its views, different for every other host
  Topology topology;  // of one node
};

// Hosts become nodes 0, 1, … in the order in which they first appear. If there are several, devices are named as in
// replicate(), and the network is joined as in join_nodes().
//
// Views of one host are united. Two GPUs are the same if their UUIDs are equal or, if those are not known, their PCI
// addresses. NICs and PCIe switches are the same if their addresses are equal. All other devices, and those that have
// neither, are the same if kind and name are equal. GPUs are numbered in the order of their addresses. If views differ
// about one thing, the wider link and the first fact that is not empty count. Links to GPUs that only another view sees
// (open_links) become links. NVSwitches of no node are one if GPUs of the same fabric are on them. If there are several
// hosts, one of which no NIC is known gets one, and a note says so.
//
// Throws kInvalidArgument if there is no view, a view has several nodes, or views of a host do not fit together: then
// they are of two hosts that go by one name.
Topology merge(const std::vector<HostView>& views);

}  // namespace plait
