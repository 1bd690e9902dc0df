// The profiles of the library, and which fits a machine.
#include "model/profile.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "model/units.hpp"
#include "topology/groups.hpp"
#include "topology/paths.hpp"

namespace plait {
namespace {

const Device& device_at(const Topology& topology, int index) { return topology.devices[static_cast<size_t>(index)]; }

bool is_one_of(const std::string& model, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return model.find(name) != std::string::npos; });
}

// Whether the list names it; an empty one names all.
bool names(const std::vector<std::string>& list, const std::string& name) {
  return list.empty() || std::find(list.begin(), list.end(), name) != list.end();
}

// Whether one NVSwitch joins all of them, by links of one bandwidth: then every GPU reaches every other alike.
bool share_a_switch(const Topology& topology, const std::vector<int>& gpus) {
  std::map<int, std::map<int, double>> on_switch;  // [switch][GPU], GB/s
  for (const Link& link : topology.links) {
    if (link.kind != LinkKind::kNvlink) continue;
    for (const auto& [gpu, other] : {std::pair(link.a, link.b), std::pair(link.b, link.a)}) {
      if (device_at(topology, other).kind == DeviceKind::kNvSwitch) on_switch[other][gpu] = link.gbps;
    }
  }
  return std::any_of(on_switch.begin(), on_switch.end(), [&](const auto& it) {
    const auto first = it.second.find(gpus[0]);
    return first != it.second.end() && std::all_of(gpus.begin(), gpus.end(), [&](int gpu) {
             const auto found = it.second.find(gpu);
             return found != it.second.end() && found->second == first->second;
           });
  });
}

// Whether no NIC of several nodes is known: Linux shows RDMA devices alone, and others are assumed
// (topology/merge.cpp).
bool are_joined_by_tcp(const Topology& topology, const std::vector<int>& cpus) {
  std::set<int> nodes;
  for (const int cpu : cpus) nodes.insert(device_at(topology, cpu).node);
  return nodes.size() > 1 && std::none_of(topology.devices.begin(), topology.devices.end(), [&](const Device& it) {
           return it.kind == DeviceKind::kNic && nodes.count(it.node) > 0 && !is_assumed(it.source);
         });
}

std::vector<int> distinct(std::vector<int> devices) {
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

}  // namespace

bool fits(const Profile& profile, const Topology& topology, const std::vector<int>& device_of_rank) {
  const bool on_cpus = device_at(topology, device_of_rank[0]).kind == DeviceKind::kCpu;
  if (!names(profile.machines, topology.name) || (on_cpus && !profile.machines.empty())) return false;
  if (profile.fabric == Fabric::kAny) return true;
  const std::vector<int> devices = distinct(device_of_rank);
  const int node = device_at(topology, devices[0]).node;
  if (profile.fabric == Fabric::kCpu) {
    return on_cpus &&
           std::all_of(devices.begin(), devices.end(), [&](int cpu) { return device_at(topology, cpu).node == node; });
  }
  if (profile.fabric == Fabric::kTcp) return on_cpus && are_joined_by_tcp(topology, devices);
  if (on_cpus) return false;
  if (!profile.gpus.empty() && !is_one_of(device_at(topology, devices[0]).model, profile.gpus)) return false;
  if (devices.size() == 1 || share_a_switch(topology, devices)) return true;
  return devices.size() == 2 && find_groups(topology, devices, GroupRule::kGpuOnly).size() == 1;
}

const std::vector<Profile>& profiles() {
  static const auto& all = *[] {
    auto* made = new std::vector<Profile>();  // for good: static destructors of a program still make calls
    for (const internal::ProfileText& it : internal::profile_texts()) {
      made->push_back(parse_profile(it.text, join("profiles/", it.name, ".json")));
    }
    // Those that name machines first, then those that name GPUs, then those of a fabric; last the one that fits all.
    const auto rank = [](const Profile& it) {
      if (!it.machines.empty()) return 0;
      return it.fabric == Fabric::kAny ? 3 : it.gpus.empty() ? 2 : 1;
    };
    std::stable_sort(made->begin(), made->end(), [&](const Profile& a, const Profile& b) { return rank(a) < rank(b); });
    return made;
  }();
  return all;
}

const Profile& profile_for(const Topology& topology, const std::vector<int>& device_of_rank) {
  for (const Profile& profile : profiles()) {
    if (fits(profile, topology, device_of_rank)) return profile;
  }
  fail(ErrorCode::kInternal, "no profile fits ", topology.name, "; profiles/default.json is missing");
}

std::array<Line, 2> Costs::memory_lines() const {
  if (memory_gbps <= 0) return {};
  const double of_byte = 1 / (memory_gbps * kBytesPerGb);
  if (cache_gbps <= memory_gbps || cache_bytes <= 0) return {Line{0, of_byte}, Line{0, of_byte}};
  const double cached = 1 / (cache_gbps * kBytesPerGb);
  return {Line{0, cached}, Line{-cache_bytes * (of_byte - cached), of_byte}};
}

double Costs::memory_seconds(double bytes) const {
  const auto [cached, rest] = memory_lines();
  return std::max(cached.at(bytes), rest.at(bytes));
}

std::string MeasuredOn::text() const {
  std::string models;
  for (const std::string& model : gpus) models += join(models.empty() ? "" : ", ", model);
  return join("up to ", counted(ranks, "rank"), " of ", models);
}

bool was_measured(const MeasuredOn& on, const Topology& topology, const std::vector<int>& device_of_rank) {
  if (on.ranks > 0 && static_cast<int>(device_of_rank.size()) > on.ranks) return false;
  return on.gpus.empty() || std::all_of(device_of_rank.begin(), device_of_rank.end(), [&](int device) {
           return is_one_of(device_at(topology, device).model, on.gpus);
         });
}

const MeasuredTimes* times_for(const Profile& profile, Collective collective, const Topology& topology,
                               const std::vector<int>& device_of_rank) {
  const size_t devices = distinct(device_of_rank).size();
  for (const MeasuredTimes& it : profile.times) {
    if (it.collective == collective && static_cast<size_t>(it.ranks) == device_of_rank.size() &&
        devices == device_of_rank.size() && is_one_of(device_at(topology, device_of_rank[0]).model, it.gpus)) {
      return &it;
    }
  }
  return nullptr;
}

TunedPlace tuned_place(const Topology& topology, const std::vector<int>& device_of_rank) {
  TunedPlace place;
  place.machine = topology.name;
  place.nodes = topology.nodes;
  std::set<std::string> models;
  const std::vector<int> used = distinct(device_of_rank);
  for (const int device : used) models.insert(device_at(topology, device).model);
  for (const std::string& model : models) place.device += join(place.device.empty() ? "" : ", ", model);
  const DeviceKind kind = device_at(topology, used[0]).kind;
  place.devices = static_cast<int>(used.size());
  if (kind != DeviceKind::kCpu) return place;
  // Ranks on the CPUs of a host run on any of its cores.
  const std::vector<int> sockets = devices_of(topology, DeviceKind::kCpu);
  place.devices = static_cast<int>(sockets.size());
  for (const int socket : sockets) place.cores += device_at(topology, socket).cores;
  return place;
}

bool suits(const KernelCosts& kernels, const Topology& topology, const std::vector<int>& device_of_rank) {
  return kernels.gpus.empty() || is_one_of(device_at(topology, device_of_rank[0]).model, kernels.gpus);
}

bool suits(const HostPathProfile& path, const Topology& topology, const std::vector<int>& device_of_rank) {
  const auto ranks = static_cast<int>(device_of_rank.size());
  return std::find(path.ranks.begin(), path.ranks.end(), ranks) != path.ranks.end() &&
         is_one_of(device_at(topology, device_of_rank[0]).model, path.gpus) &&
         distinct(device_of_rank).size() == device_of_rank.size();
}

}  // namespace plait
