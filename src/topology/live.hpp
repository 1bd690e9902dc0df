// The machine that this process runs on (NVG-33).
#pragma once

#include <string>

#include "topology/nvml.hpp"
#include "topology/topology.hpp"

namespace plait {

struct LiveSources {
  std::string sysfs = "/sys";
  std::string cpuinfo = "/proc/cpuinfo";
  std::string nvml = "libnvidia-ml.so.1";
};

// CPU sockets come from Linux, GPUs and NVLinks from the driver, PCIe switches and NICs of class infiniband from Linux.
// Only devices that NVML reports are GPUs. A machine with nothing else still has its CPU sockets. Never fails because
// something is missing; the topology's source says what was missing or assumed.
Topology read_live(const LiveSources& sources = {});
// The same, with the driver's answers given.
Topology read_live(const LiveSources& sources, const NvmlFacts& nvml);

}  // namespace plait
