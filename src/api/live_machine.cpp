// Finding the machine, and the ranks' places on it.
#include "api/live_machine.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "topology/live.hpp"

namespace plait {
namespace {

constexpr const char* kAssumed = "assumed: the driver's NVML does not tell of this GPU";
constexpr const char* kNoNvml = "";  // a library that is not there
constexpr double kAssumedNvlinkGbps = 450, kAssumedPcieGbps = 25;

// On a machine that stands in for this one.
RankMachine place_on_described(const Topology& topology, int ranks, const Settings& settings) {
  try {
    return place_on(topology, ranks, settings);
  } catch (const Error& error) {
    fail(error.code(), "PLAIT_TOPOLOGY is '", settings.topology, "': ", error.what());
  }
}

// Finds the ranks' GPUs in the topology, if it has them. PCI addresses are unique within a host only.
std::vector<int> devices_by_bus_id(const AgreedTopology& agreed, const std::vector<GpuIdentity>& gpus) {
  std::vector<int> devices;
  for (size_t rank = 0; rank < gpus.size(); ++rank) {
    for (const int index : devices_of(agreed.topology, DeviceKind::kGpu, agreed.node_of_rank[rank])) {
      if (agreed.topology.devices[static_cast<size_t>(index)].bus_id != gpus[rank].bus_id) continue;
      devices.push_back(index);
      break;
    }
  }
  return devices;
}

// A machine of the ranks' GPUs alone, for when nothing else is known.
class UnknownGpus {
 public:
  explicit UnknownGpus(AgreedTopology agreed) : agreed_(std::move(agreed)) {}

  RankMachine place(const std::vector<GpuIdentity>& gpus, bool nvlink, const Settings& settings) {
    const int nodes = agreed_.topology.nodes;
    if (nvlink) hub_ = add(DeviceKind::kNvSwitch, nodes == 1 ? 0 : kNoNode, "nvswitch-of-ranks");
    std::vector<int> devices;
    for (size_t rank = 0; rank < gpus.size(); ++rank) {
      const std::pair place(agreed_.node_of_rank[rank], std::string(gpus[rank].bus_id));
      const auto [known, is_new] = known_.try_emplace(place, -1);
      if (is_new) known->second = add_gpu(place.first, gpus[rank].model, join("gpu-of-rank", rank));
      devices.push_back(known->second);
    }
    return place_on(agreed_.topology, devices, settings);
  }

 private:
  int add(DeviceKind kind, int node, std::string name) {
    Device device;
    device.kind = kind;
    device.node = node;
    device.name = std::move(name);
    device.source = kAssumed;
    return agreed_.topology.add_device(std::move(device));
  }

  int add_gpu(int node, const char* model, std::string name) {
    const int cpu = cpu_of(node), gpu = add(DeviceKind::kGpu, node, std::move(name));
    agreed_.topology.devices[static_cast<size_t>(gpu)].model = model;
    agreed_.topology.add_link({cpu, gpu, LinkKind::kPcie, 16, kAssumedPcieGbps, kAssumed});
    if (hub_ >= 0) agreed_.topology.add_link({hub_, gpu, LinkKind::kNvlink, 18, kAssumedNvlinkGbps, kAssumed});
    return gpu;
  }

  int cpu_of(int node) {
    const std::vector<int> cpus = devices_of(agreed_.topology, DeviceKind::kCpu, node);
    return cpus.empty() ? add(DeviceKind::kCpu, node, join("cpu-of-node", node)) : cpus[0];
  }

  AgreedTopology agreed_;
  int hub_ = -1;
  std::map<std::pair<int, std::string>, int> known_;  // by node and address
};

}  // namespace

const Topology& live_topology(bool with_gpus) {
  // For good: static destructors of a program still make calls.
  static const Topology& cpus = *new Topology(read_live(LiveSources{.nvml = kNoNvml}, NvmlFacts{}));
  if (!with_gpus) return cpus;
  static const Topology& all = *new Topology(read_live());
  return all;
}

RankMachine host_machine(const AgreedTopology& agreed, const Settings& settings) {
  const std::vector<int>& nodes = agreed.node_of_rank;
  if (!settings.topology.empty()) return place_on_described(agreed.topology, static_cast<int>(nodes.size()), settings);
  std::map<int, size_t> before;  // ranks of a node
  std::vector<int> devices;
  for (const int node : nodes) {
    const std::vector<int> sockets = devices_of(agreed.topology, DeviceKind::kCpu, node);
    const auto ranks = static_cast<size_t>(std::count(nodes.begin(), nodes.end(), node));
    devices.push_back(sockets[before[node]++ * sockets.size() / ranks]);
  }
  return place_on(agreed.topology, devices, settings);
}

RankMachine gpu_machine(const AgreedTopology& agreed, const std::vector<GpuIdentity>& gpus, bool nvlink,
                        const Settings& settings) {
  if (!settings.topology.empty()) return place_on_described(agreed.topology, static_cast<int>(gpus.size()), settings);
  const std::vector<int> devices = devices_by_bus_id(agreed, gpus);
  if (devices.size() == gpus.size()) return place_on(agreed.topology, devices, settings);
  return UnknownGpus(agreed).place(gpus, nvlink, settings);
}

}  // namespace plait
