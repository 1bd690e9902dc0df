// Devices of machines that tests make.
#pragma once

#include <string>
#include <utility>

#include "topology/topology.hpp"

namespace plait::test {

// Returns its index.
inline int add_device(Topology& topology, DeviceKind kind, std::string name, int node = 0) {
  Device device;
  device.kind = kind;
  device.node = node;
  device.name = std::move(name);
  return topology.add_device(std::move(device));
}

}  // namespace plait::test
