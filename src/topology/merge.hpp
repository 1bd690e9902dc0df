// One topology from what several processes see of one or more hosts.
#pragma once

#include <string>
#include <vector>

#include "topology/topology.hpp"

namespace plait {

// What one process sees: the live topology of its host, perhaps with a part of the GPUs, as containers have it.
struct HostView {
  std::string host;   // names the host: equal for all its views, different for every other host
  Topology topology;  // of one node
};

// Hosts become nodes 0, 1, … in the order in which they first appear; where there are several, devices are named as
// replicate() names them and the network is joined as join_nodes() does.
//
// Views of one host are united. A GPU is the same where the UUID is, or, where that is not known, the PCI address; NICs
// and PCIe switches where the address is; all else, and what has neither, where kind and name are. GPUs are numbered in
// the order of their addresses. What views say of one thing differently, the wider link and the first fact that is not
// empty hold. Links to GPUs that only another view sees (open_links) become links. NVSwitches of no node are one where
// GPUs of the same fabric hang on them. A host among others of which no NIC is known gets one, and a note says so.
//
// Throws kInvalidArgument where there is no view, a view has several nodes, or views of a host do not fit together:
// then they are of two hosts that go by one name.
Topology merge(const std::vector<HostView>& views);

}  // namespace plait
