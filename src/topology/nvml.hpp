// Reads GPUs and NVLinks from the NVIDIA driver. The library is opened at run time, so that one build serves
// machines with and without a driver.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace plait {

struct NvmlLink {
  enum class Remote : uint8_t { kGpu, kCpu, kSwitch, kUnknown };
  Remote remote = Remote::kUnknown;
  std::string bus_id;  // of the remote device; ones if a virtual machine hides it
  double gbps = 0;     // of this lane per direction; 0 if the driver does not say
};

struct NvmlGpu {
  std::string name;
  std::string bus_id;       // "0000:17:00.0"
  std::string uuid;         // "GPU-5a1b…"; empty if the driver does not say
  std::string fabric;       // the NVLink domain of several hosts: cluster UUID and clique; empty: none
  int sm = 0;               // compute capability 9.0 is 90
  int pcie_generation = 0;  // the highest that GPU and slot can do; 0 if unknown
  int pcie_lanes = 0;
  std::vector<NvmlLink> links;  // the active ones
  int c2c_links = 0;            // NVLink-C2C to the CPU of the package
  double c2c_gbps = 0;          // of each link
};

struct NvmlFacts {
  std::vector<NvmlGpu> gpus;                     // in the driver's order
  std::vector<std::pair<int, int>> unreachable;  // pairs that the driver says cannot read each other's memory
  std::string note;                              // why there are no GPUs; else empty
};

// Asks the library of that name. No library, no driver and no GPU are not errors: the result then has no GPUs and a
// note.
NvmlFacts read_nvml(const std::string& library);

// "00000000:17:00.0" and "0000:17:00.0" -> "0000:17:00.0", in small letters.
std::string normal_bus_id(const std::string& bus_id);

}  // namespace plait
