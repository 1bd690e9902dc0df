// The machine of a communicator: its ranks, on what they see or on what PLAIT_TOPOLOGY puts in its place.
#pragma once

#include <vector>

#include "api/agreed_topology.hpp"
#include "base/settings.hpp"
#include "topology/gpu_models.hpp"
#include "topology/topology.hpp"
#include "tuner/machine.hpp"

namespace plait {

// The machine that this process runs on, read once a process. GPUs cost some time to ask for, so only those ask who
// have one.
const Topology& live_topology(bool with_gpus);

// Ranks whose buffers are in host memory: on a described machine one a GPU, where it has GPUs; else on the CPU sockets
// of their hosts.
RankMachine host_machine(const AgreedTopology& agreed, const Settings& settings);

// Ranks on these GPUs, by rank. GPUs that the topology does not have, as where there is no NVML, are added to it,
// joined by an NVSwitch where `nvlink` says that NVLink joins all, and by PCIe else.
RankMachine gpu_machine(const AgreedTopology& agreed, const std::vector<GpuIdentity>& gpus, bool nvlink,
                        const Settings& settings);

}  // namespace plait
