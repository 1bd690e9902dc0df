#include "topology/builder.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/error.hpp"
#include "topology/bandwidths.hpp"

namespace plait::internal {
namespace {

// Sorts CPUs first, then the devices attached to them, as people read a machine.
int rank_of(DeviceKind kind) {
  constexpr DeviceKind kOrder[] = {DeviceKind::kCpu,      DeviceKind::kMemory,     DeviceKind::kGpu,
                                   DeviceKind::kNvSwitch, DeviceKind::kPcieSwitch, DeviceKind::kNic,
                                   DeviceKind::kNetSwitch};
  return static_cast<int>(std::find(std::begin(kOrder), std::end(kOrder), kind) - std::begin(kOrder));
}

// Names from devices and files are printed and written to JSON, so they must be plain text.
void make_printable(std::string& text) {
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
}

}  // namespace

MachineBuilder::MachineBuilder(std::string name, std::string source) {
  topology_.name = std::move(name);
  topology_.source = std::move(source);
}

void MachineBuilder::note(const std::string& text) { topology_.source += "; " + text; }

void MachineBuilder::warn(std::string text) {
  make_printable(text);
  topology_.notes.push_back(std::move(text));
}

void MachineBuilder::leave_out(const std::string& what, const std::string& which) {
  constexpr int kMostExamples = 3;
  auto entry =
      std::find_if(left_out_.begin(), left_out_.end(), [&](const LeftOut& known) { return known.what == what; });
  if (entry == left_out_.end()) entry = left_out_.insert(entry, LeftOut{what, 0, ""});
  if (entry->count < kMostExamples) entry->examples += (entry->count == 0 ? "" : ", ") + which;
  if (entry->count == kMostExamples) entry->examples += ", ...";
  ++entry->count;
}

void MachineBuilder::close_left_out() {
  for (const LeftOut& entry : left_out_) {
    warn(plait::join("left out: ", entry.what, ": ", entry.count, " (", entry.examples, ")"));
  }
}

void MachineBuilder::Lanes::add(int lanes, double lane_gbps, const std::string& where) {
  width += lanes;
  gbps += lanes * lane_gbps;
  source = where;
}

int MachineBuilder::add(DeviceKind kind, int node, int number, Device facts) {
  facts.kind = kind;
  facts.node = node;
  make_printable(facts.model);
  make_printable(facts.bus_id);
  make_printable(facts.uuid);
  make_printable(facts.fabric);
  topology_.nodes = std::max(topology_.nodes, node + 1);
  found_.push_back({std::move(facts), number, {}});
  return static_cast<int>(found_.size()) - 1;
}

void MachineBuilder::join(int a, int b, LinkKind kind, int width, double gbps, std::string source) {
  links_.push_back({a, b, kind, width, gbps, std::move(source)});
}

void MachineBuilder::add_gpu_link_side(LinkKind kind, int from, int to, int lanes, double lane_gbps,
                                       const std::string& source) {
  sides_[{kind, from, to}].add(lanes, lane_gbps, source);
}

void MachineBuilder::add_nvlink(int gpu, int cpu, int lanes, double lane_gbps, const std::string& source) {
  nvlinks_[{gpu, cpu}].add(lanes, lane_gbps, source);
}

void MachineBuilder::add_nvswitch_lanes(int gpu, const std::string& chip, int lanes, double lane_gbps,
                                        const std::string& source, const std::string& domain) {
  const SwitchPlace place(domain.empty() ? found_[static_cast<size_t>(gpu)].device.node : kNoNode, domain);
  auto& switched = switched_[gpu];
  switched.first = place;
  switched.second.add(lanes, lane_gbps, source);
  chips_[place].insert(chip);
}

void MachineBuilder::add_open_lanes(int gpu, const std::string& bus_id, int lanes, double lane_gbps,
                                    const std::string& source) {
  open_lanes_[{gpu, bus_id}].add(lanes, lane_gbps, source);
}

void MachineBuilder::close_nvlinks() {
  for (const auto& [ends, lanes] : open_lanes_) {
    add_open_link({ends.first, ends.second, LinkKind::kNvlink, lanes.width, lanes.gbps, lanes.source});
  }
  for (const auto& [side, lanes] : sides_) {
    const auto& [kind, from, to] = side;
    const auto back = sides_.find({kind, to, from});
    if (back != sides_.end() && from > to) continue;  // the other side has handled this pair
    const Lanes& more = back != sides_.end() && back->second.width > lanes.width ? back->second : lanes;
    join(from, to, kind, more.width, more.gbps, more.source);
  }
  for (const auto& [pair, lanes] : nvlinks_) {
    join(pair.first, pair.second, LinkKind::kNvlink, lanes.width, lanes.gbps, lanes.source);
  }
  std::map<SwitchPlace, int> switches;
  for (const auto& [place, chips] : chips_) {
    Device device;
    device.model = chips.size() > 1 ? plait::join("NVSwitch, ", chips.size(), " chips") : "NVSwitch";
    switches[place] = add(DeviceKind::kNvSwitch, place.first, -1, std::move(device));
  }
  for (const auto& [gpu, switched] : switched_) {
    const auto& [place, lanes] = switched;
    join(gpu, switches.at(place), LinkKind::kNvlink, lanes.width, lanes.gbps, lanes.source);
  }
}

void MachineBuilder::join_sockets() {
  std::map<int, std::vector<int>> cpus_of_node;
  for (size_t i = 0; i < found_.size(); ++i) {
    const Device& device = found_[i].device;
    if (device.kind == DeviceKind::kCpu) cpus_of_node[device.node].push_back(static_cast<int>(i));
  }
  std::set<std::pair<int, int>> joined;
  for (const Link& link : links_) {
    if (link.kind == LinkKind::kSocket) joined.insert({std::min(link.a, link.b), std::max(link.a, link.b)});
  }
  for (const auto& [node, cpus] : cpus_of_node) {
    for (size_t b = 0; b < cpus.size(); ++b) {
      for (size_t a = 0; a < b; ++a) {
        if (joined.count({cpus[a], cpus[b]})) continue;
        join(cpus[a], cpus[b], LinkKind::kSocket, 1, socket_gbps(found_[static_cast<size_t>(cpus[a])].vendor),
             "assumed: usual for this maker of CPUs");
      }
    }
  }
}

std::vector<int> MachineBuilder::order_devices() const {
  std::vector<int> order(found_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int i) {
    const Found& found = found_[static_cast<size_t>(i)];
    // Devices of no node come last. Devices without a number follow those with one, in the order in which they were
    // found.
    const bool outside = found.device.node == kNoNode;
    return std::tuple(outside, found.device.node, rank_of(found.device.kind), found.number < 0, found.number, i);
  };
  std::sort(order.begin(), order.end(), [&](int x, int y) { return key(x) < key(y); });
  return order;
}

void MachineBuilder::name_devices(const std::vector<int>& order) {
  std::set<std::tuple<int, int>> numbered;  // node and number of each GPU
  bool own_numbers = true;
  for (const int i : order) {
    const Found& found = found_[static_cast<size_t>(i)];
    if (found.device.kind != DeviceKind::kGpu) continue;
    own_numbers &= found.number >= 0 && numbered.insert({found.device.node, found.number}).second;
  }
  std::map<std::pair<int, DeviceKind>, int> next;
  for (const int i : order) {
    Found& found = found_[static_cast<size_t>(i)];
    const int place = next[{found.device.node, found.device.kind}]++;
    const int number = found.device.kind == DeviceKind::kGpu && own_numbers ? found.number : place;
    const bool in_one_of_several = topology_.nodes > 1 && found.device.node != kNoNode;
    const std::string prefix = in_one_of_several ? plait::join("n", found.device.node, ".") : "";
    found.device.name = plait::join(prefix, name(found.device.kind), number);
  }
}

Topology MachineBuilder::finish() {
  close_nvlinks();
  close_left_out();
  join_sockets();
  const std::vector<int> order = order_devices();
  name_devices(order);
  std::vector<int> place(found_.size());
  for (const int i : order)
    place[static_cast<size_t>(i)] = topology_.add_device(std::move(found_[static_cast<size_t>(i)].device));
  for (Link& link : links_) {
    link.a = place[static_cast<size_t>(link.a)];
    link.b = place[static_cast<size_t>(link.b)];
    if (link.a > link.b) std::swap(link.a, link.b);
  }
  std::sort(links_.begin(), links_.end(),
            [](const Link& x, const Link& y) { return std::tuple(x.kind, x.a, x.b) < std::tuple(y.kind, y.a, y.b); });
  topology_.links = std::move(links_);
  for (OpenLink& link : open_links_) link.device = place[static_cast<size_t>(link.device)];
  std::sort(open_links_.begin(), open_links_.end(), [](const OpenLink& x, const OpenLink& y) {
    return std::tie(x.device, x.bus_id, x.kind) < std::tie(y.device, y.bus_id, y.kind);
  });
  topology_.open_links = std::move(open_links_);
  if (topology_.nodes > 1) {
    topology_.network.source = "assumed: full bisection between nodes";
    join_nodes(topology_);
  }
  validate(topology_);
  return std::move(topology_);
}

}  // namespace plait::internal
