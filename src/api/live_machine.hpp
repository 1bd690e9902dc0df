// The machine of a communicator: what its ranks find, or what PLAIT_TOPOLOGY puts in its place.
#pragma once

#include <string>
#include <vector>

#include "base/settings.hpp"
#include "runtime/bootstrap.hpp"
#include "topology/gpu_models.hpp"
#include "topology/topology.hpp"
#include "tuner/machine.hpp"

namespace plait {

// The machine that this process runs on, read once a process. GPUs cost some time to ask for, so only those ask who
// have one.
const Topology& live_topology(bool with_gpus);

// What all ranks take their machine to be: PLAIT_TOPOLOGY's, which has to be the same on all of them, or what they
// find. Where ranks find different things, as in containers, it is what rank 0 finds. Collective over the ranks of
// `bootstrap`. Throws on all ranks alike, also kMismatch.
Topology agree_on_topology(Bootstrap& bootstrap, const Settings& settings, bool with_gpus);
// The same for ranks of this process.
Topology topology_for(const Settings& settings, bool with_gpus);

// Ranks whose buffers are in host memory: on a described machine one a GPU, where it has GPUs; else on the CPU sockets.
RankMachine host_machine(const Topology& topology, int ranks, const Settings& settings);

// Ranks on these GPUs, by rank. GPUs that the topology does not have, as where there is no NVML, are added to it,
// joined by an NVSwitch where `nvlink` says that NVLink joins all, and by PCIe else.
RankMachine gpu_machine(const Topology& topology, const std::vector<GpuIdentity>& gpus, bool nvlink,
                        const Settings& settings);

}  // namespace plait
