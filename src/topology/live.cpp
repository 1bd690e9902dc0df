#include "topology/live.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "topology/bandwidths.hpp"
#include "topology/builder.hpp"
#include "topology/sysfs.hpp"

namespace plait {
namespace {

using internal::MachineBuilder;

double gigatransfers_of(int pcie_generation) {
  constexpr double kSpeeds[] = {0, 2.5, 5, 8, 16, 32, 64, 128};
  return pcie_generation > 0 && pcie_generation <= 7 ? kSpeeds[pcie_generation] : 0;
}

// The speed of a link: the lesser of what its two ends can do. An end that does not report counts for nothing.
SysfsPciLink link_between(const SysfsPciLink& a, const SysfsPciLink& b) {
  const auto lesser = [](auto x, auto y) { return x > 0 && y > 0 ? std::min(x, y) : std::max(x, y); };
  return {lesser(a.gigatransfers, b.gigatransfers), lesser(a.lanes, b.lanes)};
}

class LiveReader {
 public:
  LiveReader(const LiveSources& sources, const NvmlFacts& nvml)
      : sysfs_(sources.sysfs, sources.cpuinfo), nvml_(nvml), builder_("live", "this machine: Linux and NVML") {}

  Topology read() {
    if (!nvml_.note.empty()) builder_.note(nvml_.note);
    add_sockets();
    add_memories();
    add_gpus();
    add_nics();
    add_nvlinks();
    for (const auto& [i, j] : nvml_.unreachable) {
      builder_.note(join("NVML: GPUs ", i, " and ", j, " cannot access each other's memory"));
    }
    return builder_.finish();
  }

 private:
  void add_sockets() {
    for (const SysfsSocket& socket : sysfs_.sockets()) {
      Device device;
      device.model = socket.model;
      device.cores = socket.cores;
      device.memory_gb = socket.memory_gb;
      sockets_.push_back(builder_.add(DeviceKind::kCpu, 0, static_cast<int>(sockets_.size()), std::move(device)));
      builder_.set_vendor(sockets_.back(), socket.vendor);
    }
  }

  void add_memories() {
    bool all_known = true;
    for (size_t i = 0; i < sockets_.size(); ++i) {
      const double gbps = sysfs_.sockets()[i].memory_gbps;
      add_memory(sockets_[i], gbps);
      all_known &= gbps > 0;
    }
    if (all_known || !nvml_.gpus.empty()) return;  // with GPUs, no result depends on it
    builder_.warn(join("assumed: ", kAssumedMemoryGbps,
                       " GB/s each way for the memory of a CPU socket, since Linux does not ",
                       "say it; a machine file (plait topo --json) can state what was measured"));
  }

  void add_memory(int cpu, double gbps) {
    const int memory = builder_.add(DeviceKind::kMemory, 0, -1, Device{});
    const bool known = gbps > 0;
    builder_.join(cpu, memory, LinkKind::kMemory, 1, known ? gbps : kAssumedMemoryGbps,
                  known ? "Linux, from the firmware: the lesser of reading and writing" : "assumed");
  }

  void add_gpus() {
    for (size_t i = 0; i < nvml_.gpus.size(); ++i) {
      const NvmlGpu& gpu = nvml_.gpus[i];
      Device device;
      device.model = gpu.name;
      device.bus_id = gpu.bus_id;
      device.uuid = gpu.uuid;
      device.fabric = gpu.fabric;
      const int index = builder_.add(DeviceKind::kGpu, 0, static_cast<int>(i), std::move(device));
      gpu_of_bus_id_.emplace(gpu.bus_id, index);
      gpus_.push_back(index);
      gpu_cpus_.push_back(attach(index, gpu.bus_id, {gigatransfers_of(gpu.pcie_generation), gpu.pcie_lanes}));
    }
  }

  void add_nics() {
    for (const SysfsNic& nic : sysfs_.nics()) {
      Device device;
      device.model = nic.name + (nic.port_gbps > 0 ? "" : ", no active port");
      device.bus_id = nic.bus_id;
      device.port_gbps = nic.port_gbps;
      attach(builder_.add(DeviceKind::kNic, 0, -1, std::move(device)), nic.bus_id, {});
    }
  }

  void join_pcie(int below, int above, SysfsPciLink link) {
    const bool known = link.gigatransfers > 0 && link.lanes > 0;
    if (link.gigatransfers <= 0) link.gigatransfers = kAssumedPcieGigatransfers;
    if (link.lanes <= 0) link.lanes = kAssumedPcieLanes;
    builder_.join(below, above, LinkKind::kPcie, link.lanes, pcie_gbps(link.gigatransfers, link.lanes),
                  known ? "Linux: the most that both ends can do" : "assumed, where Linux does not say");
  }

  // Joins a device to its CPU through the PCIe switches in between, and returns the CPU. Below the root port, each
  // switch shows as two bridges, its upstream and one downstream port; the upstream one names it. `fallback` is the
  // device's link as the driver reports it, for when Linux reports nothing.
  int attach(int device, const std::string& bus_id, const SysfsPciLink& fallback) {
    SysfsPci pci;
    const bool shown = sysfs_.find_pci(bus_id, pci);
    if (pci.socket < 0 && sockets_.size() > 1) {
      builder_.note("assumed: " + bus_id + " is on cpu0, since Linux does not say");
    }
    const int cpu = sockets_[static_cast<size_t>(std::max(pci.socket, 0))];
    if (!shown) {
      join_pcie(device, cpu, fallback);
      return cpu;
    }
    int above = cpu;
    for (size_t upstream = 1; upstream + 1 < pci.bridges.size(); upstream += 2) {
      const auto [place, is_new] = switches_.emplace(pci.bridges[upstream], -1);
      if (is_new) {
        Device facts;
        facts.bus_id = pci.bridges[upstream];
        place->second = builder_.add(DeviceKind::kPcieSwitch, 0, -1, std::move(facts));
        join_pcie(place->second, above, link_between(pci.ports[upstream - 1], pci.ports[upstream]));
      }
      above = place->second;
    }
    const SysfsPciLink own = link_between(pci.ports.back(), fallback);
    join_pcie(device, above, pci.bridges.empty() ? own : link_between(own, pci.ports[pci.bridges.size() - 1]));
    return cpu;
  }

  void add_nvlinks() {
    for (size_t i = 0; i < nvml_.gpus.size(); ++i) {
      const NvmlGpu& gpu = nvml_.gpus[i];
      for (const NvmlLink& link : gpu.links) add_nvlink(i, link);
      if (gpu.c2c_links > 0 && gpu.c2c_gbps > 0) {
        builder_.add_nvlink(gpus_[i], gpu_cpus_[i], gpu.c2c_links, gpu.c2c_gbps, "NVML: C2C links");
      }
    }
  }

  void add_nvlink(size_t gpu, const NvmlLink& link) {
    const bool stated = link.gbps > 0;
    const double gbps = stated ? link.gbps : nvlink_lane_gbps(nvml_.gpus[gpu].sm);
    const std::string source = stated ? "NVML" : "NVML; bandwidth assumed from the compute capability";
    const auto peer = gpu_of_bus_id_.find(link.bus_id);
    if (peer != gpu_of_bus_id_.end()) {
      if (peer->second != gpus_[gpu]) {
        builder_.add_gpu_link_side(LinkKind::kNvlink, gpus_[gpu], peer->second, 1, gbps, source);
      }
    } else if (link.remote == NvmlLink::Remote::kCpu) {
      builder_.add_nvlink(gpus_[gpu], gpu_cpus_[gpu], 1, gbps, source);
    } else if (link.remote == NvmlLink::Remote::kGpu) {
      // A GPU that is hidden from this process.
      if (open_.insert({gpu, link.bus_id}).second) {
        builder_.note(join("an NVLink of gpu", gpu, " leads to ", link.bus_id, ", which is not visible here"));
      }
      if (!link.bus_id.empty()) builder_.add_open_lanes(gpus_[gpu], link.bus_id, 1, gbps, source);
    } else {
      // Virtual machines hide what is behind a switch. Nothing else would be hidden.
      builder_.add_nvswitch_lanes(gpus_[gpu], link.bus_id, 1, gbps, source, nvml_.gpus[gpu].fabric);
    }
  }

  const Sysfs sysfs_;
  const NvmlFacts& nvml_;
  MachineBuilder builder_;
  std::vector<int> sockets_;
  std::vector<int> gpus_;      // by the driver's order
  std::vector<int> gpu_cpus_;  // the CPU of each
  std::map<std::string, int> gpu_of_bus_id_;
  std::set<std::pair<size_t, std::string>> open_;  // GPUs, and the places to which their invisible links lead
  std::map<std::string, int> switches_;            // by the upstream port's bus id
};

}  // namespace

Topology read_live(const LiveSources& sources) { return read_live(sources, read_nvml(sources.nvml)); }

Topology read_live(const LiveSources& sources, const NvmlFacts& nvml) { return LiveReader(sources, nvml).read(); }

}  // namespace plait
