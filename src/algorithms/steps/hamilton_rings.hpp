// Rings through all ranks that share the links of the machine's graph.
#pragma once

#include <vector>

#include "algorithms/steps/packing.hpp"

namespace plait {

// Each ring is used both ways round, so that it takes both directions of its links. Shape 2i is a ring as a list of
// ranks, and shape 2i + 1 is the same ring backwards (NVG-08). Three rings of four fully connected ranks at half the
// rate of a link, six with the ways, fill all links (UEN-22), while at full rate only one fits. None where no ring
// leads along the links through all ranks.
//
// `most`: rings, both ways counted as two, so that an odd number is one less; 0: as many as help.
//
// A search with a limit: where there are more rings to find than it has time for, it ends with fewer. Up to eight ranks
// it finds the most there are on every machine that is described here.
Packing<std::vector<int>> pack_rings(int ranks, const std::vector<DeviceLink>& links, int most);

}  // namespace plait
