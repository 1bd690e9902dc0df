// The paths between the devices of a plan's ranks, each looked up once.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "model/placement.hpp"
#include "plan/traffic.hpp"
#include "topology/paths.hpp"
#include "topology/topology.hpp"

namespace plait {

// Topology and placement must outlive it and not change.
class Routes {
 public:
  Routes(const Topology& topology, const Placement& placement);

  int device_of(const Endpoint& end) const;
  // The paths that share the data from one device to another. None if no link is crossed: between two memories of one
  // GPU, or in a CPU socket whose memory is not a device.
  const std::vector<Path>& between(int from, int to) { return connection(from, to).paths; }
  // Seconds that one byte takes; 0 where nothing is crossed.
  double seconds(const Endpoint& from, const Endpoint& to);

  const Topology& topology() const { return topology_; }
  const Placement& placement() const { return placement_; }

 private:
  // Between two devices.
  struct Connection {
    std::vector<Path> paths;
    double seconds_per_byte = 0;
  };
  const Connection& connection(int from, int to);

  const Topology& topology_;
  const Placement& placement_;
  const bool on_sockets_;  // the ranks are on CPUs
  const PathFinder finder_;
  std::unordered_map<uint64_t, Connection> connections_;
};

}  // namespace plait
