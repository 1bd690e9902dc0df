// A host as its driver shows it, and as containers with some of its GPUs see it.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "topology/machines.hpp"
#include "topology/topology.hpp"

namespace plait::test {

// A DGX-1 as its driver shows it: with addresses and UUIDs, in the order of topology readers.
inline Topology host(const std::string& serial = "a") {
  Topology topology = machine("dgx1-v100");
  for (const int gpu : devices_of(topology, DeviceKind::kGpu)) {
    Device& device = topology.devices[static_cast<size_t>(gpu)];
    const char number = device.name.back();
    device.bus_id = std::string("0000:0") + number + ":00.0";
    device.uuid = "GPU-" + serial + number;
  }
  for (const int nic : devices_of(topology, DeviceKind::kNic)) {
    Device& device = topology.devices[static_cast<size_t>(nic)];
    device.bus_id = std::string("0000:4") + device.name.back() + ":00.0";
  }
  return topology;
}

// The view of a container that has these GPUs: they are numbered from 0, and links to other GPUs are open.
inline Topology container(const Topology& whole, const std::vector<std::string>& names) {
  std::vector<int> gpus;
  for (const std::string& name : names) gpus.push_back(device_named(whole, name));
  Topology part = select(whole, gpus);
  int number = 0;
  for (const int gpu : devices_of(part, DeviceKind::kGpu)) {
    part.devices[static_cast<size_t>(gpu)].name = join("gpu", number++);
  }
  for (const Link& link : whole.links) {
    if (!joins_gpus(link.kind)) continue;
    for (const auto& [inside, outside] : {std::pair(link.a, link.b), std::pair(link.b, link.a)}) {
      const bool in = std::count(gpus.begin(), gpus.end(), inside) > 0;
      const bool out = std::count(gpus.begin(), gpus.end(), outside) == 0;
      if (!in || !out) continue;
      const std::string& bus_id = whole.devices[static_cast<size_t>(inside)].bus_id;
      const auto same = [&](const Device& device) { return device.bus_id == bus_id; };
      const auto at = std::find_if(part.devices.begin(), part.devices.end(), same);
      part.open_links.push_back({static_cast<int>(at - part.devices.begin()),
                                 whole.devices[static_cast<size_t>(outside)].bus_id, link.kind, link.width, link.gbps,
                                 link.source});
    }
  }
  validate(part);
  return part;
}

}  // namespace plait::test
