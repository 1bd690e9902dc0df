// Paths, looked up once.
#include "model/routes.hpp"

#include "model/link_load.hpp"

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

const std::vector<Path>& Routes::between(int from, int to) {
  const auto [it, is_new] = paths_.try_emplace({from, to});
  if (!is_new) return it->second;
  if (on_sockets_) {
    it->second = memory_paths(topology_, finder_, from, to);
  } else if (from != to) {
    it->second = carrying_paths(topology_, finder_, from, to);
  }
  return it->second;
}

double Routes::seconds(const Endpoint& from, const Endpoint& to) {
  constexpr double kBytesPerGb = 1e9;
  const int a = device_of(from), b = device_of(to);
  if (between(a, b).empty()) return 0;
  double gbps = 0;
  for (const Path& path : between(a, b)) gbps += path.gbps;
  return 1 / (gbps * kBytesPerGb);
}

}  // namespace plait
