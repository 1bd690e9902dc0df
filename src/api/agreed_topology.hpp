// The topology of a communicator: one for all ranks, whatever each of them sees.
#pragma once

#include <functional>
#include <vector>

#include "base/settings.hpp"
#include "runtime/bootstrap.hpp"
#include "runtime/host_identity.hpp"
#include "topology/merge.hpp"
#include "topology/topology.hpp"

namespace plait {

struct AgreedTopology {
  Topology topology;
  std::vector<int> node_of_rank;  // the host that each rank is on; of a described machine, which has no ranks yet, 0
};

// Reads what this rank sees of its host.
using ViewReader = std::function<HostView()>;
// Looks at the host on which ranks share memory with this one, but not at its GPUs where nobody wants them.
HostView live_view(const HostIdentity& host, bool with_gpus);

// Agrees on the machine of all ranks. It is PLAIT_TOPOLOGY's, which has to be the same on all of them, or else the one
// that they see. Views differ between hosts, and between containers that were given other GPUs; then they are merged in
// the order of the ranks. Collective over the ranks of `bootstrap`, in one exchange where all see the same. Throws on
// all ranks alike, also where views do not fit together, and kMismatch.
AgreedTopology agree_on_topology(Bootstrap& bootstrap, const Settings& settings, const ViewReader& read_view);
// The same for ranks of this process.
AgreedTopology topology_in_process(int ranks, const Settings& settings, bool with_gpus);

}  // namespace plait
