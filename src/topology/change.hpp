// Changes of a machine, to ask what they would give: fewer GPUs, another bridge, faster links.
#pragma once

#include <string>
#include <string_view>

#include "topology/topology.hpp"

namespace plait {

// Returns the machine with the changes, which are applied in order and separated by commas:
//   drop:gpu3               without that GPU
//   add:nvlink:gpu0:gpu3    with a link between these, as fast as the narrowest of its kind; if there is one, it gains
//                           as much
//   add:nvlink:gpu0:gpu3:50 the same, of 50 GB/s per direction
//   scale:pcie:2            with links of that kind twice as fast; NICs with those of the network
// On several nodes, "gpu3" is that of every node, and "n1.gpu3" that of one. Throws kInvalidArgument, which says what
// is legal, and kInvalidInput where no such machine can be.
Topology changed(const Topology& topology, std::string_view changes);

// Returns the machine with NICs whose ports have this bandwidth each way, and which say where it is from. NICs that are
// assumed stay so. Where the link to a NIC is assumed, it is no narrower.
Topology with_ports(const Topology& topology, double gbps, const std::string& source);

}  // namespace plait
