// Ranks on machines.
#include "tuner/machine.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/error.hpp"
#include "topology/connected.hpp"
#include "topology/gpu_models.hpp"
#include "topology/machines.hpp"
#include "topology/readers.hpp"
#include "tuner/given_profile.hpp"
#include "tuner/launch_shape.hpp"

namespace plait {
namespace {

const Device& device_of(const RankMachine& machine, int rank) {
  const int device = machine.placement.device_of_rank[static_cast<size_t>(rank)];
  return machine.topology.devices[static_cast<size_t>(device)];
}

GpuFacts facts_of(const RankMachine& machine, const Settings& settings) {
  GpuFacts gpus;
  std::map<int, int> ranks_of_device;
  for (const int device : machine.placement.device_of_rank) {
    gpus.ranks_per_device = std::max(gpus.ranks_per_device, ++ranks_of_device[device]);
  }
  const bool reach_each_other = settings.peer_memory != PeerMemoryKind::kHost;
  gpus.lines = reach_each_other && machine.base.groups.size() <= 1;
  gpus.set_peer_memory(settings.peer_memory, false);
  if (const GpuModel* model = find_gpu_model(device_of(machine, 0).model)) gpus.processors = model->processors;
  gpus.most_sms = settings.max_sms < gpus.processors ? settings.max_sms : 0;
  return gpus;
}

}  // namespace

void GpuFacts::set_peer_memory(PeerMemoryKind peer_memory, bool in_one_process) {
  maps_buffers = peer_memory != PeerMemoryKind::kHost;
  blocks_stay = peer_memory != PeerMemoryKind::kIpc || in_one_process;
}

RankMachine place_on(const Topology& topology, const std::vector<int>& device_of_rank, const Settings& settings) {
  RankMachine machine;
  machine.topology = topology;
  machine.placement = place_ranks(topology, device_of_rank);
  check_connected(topology, device_of_rank);
  machine.given_profile = given_profile(settings, topology, device_of_rank);
  machine.profile = machine.given_profile ? machine.given_profile.get() : &profile_for(topology, device_of_rank);
  machine.base = arguments_for(topology, machine.placement, Collective::kAllReduce);
  if (device_of(machine, 0).kind != DeviceKind::kGpu) return machine;
  machine.gpus = facts_of(machine, settings);
  std::optional<LaunchShape> launch;
  if (!settings.launch.empty()) launch = parse_launch_shape(settings.launch);
  machine.gpus->host_path = settings.peer_memory != PeerMemoryKind::kHost && wants_host_path(machine, launch);
  return machine;
}

RankMachine place_on(const Topology& topology, int ranks, const Settings& settings) {
  return place_on(topology, place_ranks(topology, ranks).device_of_rank, settings);
}

Topology described_topology(std::string_view text) {
  constexpr std::string_view kNodes = ":nodes=";
  int nodes = 1;
  std::string_view name = text;
  if (const size_t at = text.rfind(kNodes); at != std::string_view::npos) {
    const std::string_view number = text.substr(at + kNodes.size());
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), nodes);
    if (error != std::errc() || end != number.data() + number.size() || nodes < 1) {
      fail(ErrorCode::kInvalidArgument, "PLAIT_TOPOLOGY is '", text, "': '", number,
           "' is no number of nodes; it should look like kesch:nodes=2");
    }
    name = text.substr(0, at);
  }
  const bool is_file = name.find_first_of("./") != std::string_view::npos;
  try {
    return is_file ? replicate(read_topology(std::string(name)), nodes) : machine(name, nodes);
  } catch (const Error& error) {
    fail(error.code(), "PLAIT_TOPOLOGY is '", text, "': ", error.what());
  }
}

bool wants_host_path(const RankMachine& machine, const std::optional<LaunchShape>& launch) {
  if (launch) return launch->host.channels > 0;
  return machine.gpus && machine.gpus->lines && machine.profile->host_path &&
         suits(*machine.profile->host_path, machine.topology, machine.placement.device_of_rank);
}

}  // namespace plait
