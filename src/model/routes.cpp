// Paths, looked up once.
#include "model/routes.hpp"

#include <utility>

#include "model/link_load.hpp"
#include "model/units.hpp"

namespace plait {

Routes::Routes(const Topology& topology, const Placement& placement)
    : topology_(topology),
      placement_(placement),
      on_sockets_(topology.devices[static_cast<size_t>(placement.device_of_rank.front())].kind == DeviceKind::kCpu),
      finder_(topology) {}

int Routes::device_of(const Endpoint& end) const {
  const auto& devices = end.host ? placement_.cpu_of_rank : placement_.device_of_rank;
  return devices[static_cast<size_t>(end.rank)];
}

const Routes::Connection& Routes::connection(int from, int to) {
  const auto key = static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to);
  const auto found = connections_.find(key);
  if (found != connections_.end()) return found->second;
  Connection made;
  if (on_sockets_) {
    made.paths = memory_paths(topology_, finder_, from, to);
  } else if (from != to) {
    made.paths = carrying_paths(topology_, finder_, from, to);
  }
  double gbps = 0;
  for (const Path& path : made.paths) gbps += path.gbps;
  if (!made.paths.empty()) made.seconds_per_byte = 1 / (gbps * kBytesPerGb);
  return connections_.emplace(key, std::move(made)).first->second;
}

double Routes::seconds(const Endpoint& from, const Endpoint& to) {
  return connection(device_of(from), device_of(to)).seconds_per_byte;
}

}  // namespace plait
