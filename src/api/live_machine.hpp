// The machine of a communicator: its ranks on the live machine, or on the one that PLAIT_TOPOLOGY puts in its place.
#pragma once

#include <vector>

#include "api/agreed_topology.hpp"
#include "base/settings.hpp"
#include "topology/gpu_models.hpp"
#include "topology/topology.hpp"
#include "tuner/machine.hpp"

namespace plait {

// The machine on which this process runs, read once a process. Reading GPUs takes some time, so only ranks with a GPU
// ask for them.
const Topology& live_topology(bool with_gpus);

// Places ranks whose buffers are in host memory: one a GPU on a described machine with GPUs, else on the CPU sockets of
// their hosts.
RankMachine host_machine(const AgreedTopology& agreed, const Settings& settings);

// Places ranks on these GPUs, by rank. GPUs that the topology lacks, as without NVML, are added to it: joined by an
// NVSwitch if `nvlink` says that NVLink joins all, else by PCIe.
RankMachine gpu_machine(const AgreedTopology& agreed, const std::vector<GpuIdentity>& gpus, bool nvlink,
                        const Settings& settings);

}  // namespace plait
