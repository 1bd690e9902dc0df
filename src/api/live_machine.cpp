// Finding the machine.
#include "api/live_machine.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>

#include "api/handshake.hpp"
#include "base/error.hpp"
#include "topology/live.hpp"
#include "topology/readers.hpp"

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

// Gives all ranks a text of rank 0, whose length all know.
std::string text_of_rank_zero(Bootstrap& bootstrap, const std::string& own, size_t length) {
  constexpr size_t kPart = 1 << 14;
  std::string text;
  while (text.size() < length) {
    std::array<char, kPart> part = {};
    if (bootstrap.rank() == 0) own.copy(part.data(), kPart, text.size());
    text.append(bootstrap.all_gather(part)[0].data(), std::min(kPart, length - text.size()));
  }
  return text;
}

std::vector<int> devices_by_bus_id(const Topology& topology, const std::vector<GpuIdentity>& gpus) {
  std::vector<int> devices;
  for (const GpuIdentity& gpu : gpus) {
    for (const int index : devices_of(topology, DeviceKind::kGpu)) {
      if (topology.devices[static_cast<size_t>(index)].bus_id != gpu.bus_id) continue;
      devices.push_back(index);
      break;
    }
  }
  return devices;
}

Device assumed_device(DeviceKind kind, std::string name) {
  Device device;
  device.kind = kind;
  device.name = std::move(name);
  device.source = kAssumed;
  return device;
}

// The ranks' GPUs on a machine of which nothing else is known.
std::vector<int> add_gpus(Topology& topology, const std::vector<GpuIdentity>& gpus, bool nvlink) {
  if (devices_of(topology, DeviceKind::kCpu).empty()) {
    topology.add_device(assumed_device(DeviceKind::kCpu, "cpu0"));
  }
  const int cpu = devices_of(topology, DeviceKind::kCpu)[0];
  int hub = -1;
  if (nvlink) {
    hub = topology.add_device(assumed_device(DeviceKind::kNvSwitch, "nvswitch-of-ranks"));
  }
  std::vector<int> devices;
  std::vector<std::string> known;
  std::vector<int> index_of;
  for (const GpuIdentity& gpu : gpus) {
    const auto found = std::find(known.begin(), known.end(), gpu.bus_id);
    if (found != known.end()) {
      devices.push_back(index_of[static_cast<size_t>(found - known.begin())]);
      continue;
    }
    Device device = assumed_device(DeviceKind::kGpu, join("gpu-of-rank", devices.size()));
    device.model = gpu.model;
    const int index = topology.add_device(device);
    topology.add_link({cpu, index, LinkKind::kPcie, 16, kAssumedPcieGbps, kAssumed});
    if (nvlink) topology.add_link({hub, index, LinkKind::kNvlink, 18, kAssumedNvlinkGbps, kAssumed});
    known.emplace_back(gpu.bus_id);
    index_of.push_back(index);
    devices.push_back(index);
  }
  return devices;
}

}  // namespace

const Topology& live_topology(bool with_gpus) {
  // For good: static destructors of a program still make calls.
  static const Topology& cpus = *new Topology(read_live(LiveSources{.nvml = kNoNvml}, NvmlFacts{}));
  if (!with_gpus) return cpus;
  static const Topology& all = *new Topology(read_live());
  return all;
}

Topology topology_for(const Settings& settings, bool with_gpus) {
  return settings.topology.empty() ? live_topology(with_gpus) : described_topology(settings.topology);
}

Topology agree_on_topology(Bootstrap& bootstrap, const Settings& settings, bool with_gpus) {
  struct View {
    Verdict read;
    uint64_t hash = 0, length = 0;
  };
  Topology own;
  std::string text;
  View view;
  view.read = attempt([&] {
    own = topology_for(settings, with_gpus);
    text = to_json(own);
  });
  view.hash = std::hash<std::string>{}(text);
  view.length = text.size();
  const std::vector<View> views = bootstrap.all_gather(view);
  for (size_t rank = 0; rank < views.size(); ++rank) throw_failure(views[rank].read, rank);
  const auto differs = [&](const View& it) { return it.hash != views[0].hash || it.length != views[0].length; };
  const auto other = std::find_if(views.begin(), views.end(), differs);
  if (other == views.end()) return own;
  if (!settings.topology.empty()) {
    fail(ErrorCode::kMismatch, "PLAIT_TOPOLOGY=", settings.topology, " is another machine on rank ",
         other - views.begin(), " than on rank 0; give all ranks the same file");
  }
  return parse_machine_json(text_of_rank_zero(bootstrap, text, views[0].length), "the topology of rank 0");
}

RankMachine host_machine(const Topology& topology, int ranks, const Settings& settings) {
  if (!settings.topology.empty()) return place_on_described(topology, ranks, settings);
  const std::vector<int> sockets = devices_of(topology, DeviceKind::kCpu);
  std::vector<int> devices;
  for (int rank = 0; rank < ranks; ++rank) {
    devices.push_back(sockets[static_cast<size_t>(rank) * sockets.size() / static_cast<size_t>(ranks)]);
  }
  return place_on(topology, devices, settings);
}

RankMachine gpu_machine(const Topology& topology, const std::vector<GpuIdentity>& gpus, bool nvlink,
                        const Settings& settings) {
  if (!settings.topology.empty()) return place_on_described(topology, static_cast<int>(gpus.size()), settings);
  const std::vector<int> devices = devices_by_bus_id(topology, gpus);
  if (devices.size() == gpus.size()) return place_on(topology, devices, settings);
  Topology completed = topology;
  const std::vector<int> added = add_gpus(completed, gpus, nvlink);
  return place_on(completed, added, settings);
}

}  // namespace plait
