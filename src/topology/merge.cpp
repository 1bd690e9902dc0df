#include "topology/merge.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "topology/bandwidths.hpp"
#include "topology/builder.hpp"

namespace plait {
namespace {

using internal::MachineBuilder;

// A device of the result, combined from all views that see it.
struct Merged {
  Device facts;
  int node = 0;
  int number = -1;  // to name and order it by
};

void fill_in(std::string& known, const std::string& more) {
  if (known.empty()) known = more;
}

// Fills in each fact that is empty so far.
void fill_in(Device& known, const Device& more) {
  fill_in(known.model, more.model);
  fill_in(known.bus_id, more.bus_id);
  fill_in(known.uuid, more.uuid);
  fill_in(known.fabric, more.fabric);
  fill_in(known.source, more.source);
  known.cores = std::max(known.cores, more.cores);
  known.memory_gb = std::max(known.memory_gb, more.memory_gb);
  known.port_gbps = std::max(known.port_gbps, more.port_gbps);
}

class Merger {
 public:
  void add(const HostView& view, int node) {
    const Topology& topology = view.topology;
    if (topology.nodes != 1) {
      fail(ErrorCode::kInvalidArgument, "merge: the view of host ", view.host, " has ", counted(topology.nodes, "node"),
           "; a view is of one host");
    }
    validate(topology);
    std::vector<int> place;  // indices into merged_ of the view's devices
    for (size_t i = 0; i < topology.devices.size(); ++i) place.push_back(place_of(view, static_cast<int>(i), node));
    for (const Link& link : topology.links) {
      add_link(place[static_cast<size_t>(link.a)], place[static_cast<size_t>(link.b)], link.kind,
               {link.width, link.gbps, link.source});
    }
    for (OpenLink link : topology.open_links) {
      link.device = place[static_cast<size_t>(link.device)];
      open_.push_back(std::move(link));
    }
    for (const std::string& note : topology.notes) {
      if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(note);
    }
  }

  Topology finish(std::string name, std::string source) {
    number_gpus();
    assume_nics();
    MachineBuilder builder(std::move(name), std::move(source));
    for (std::string& note : notes_) builder.warn(std::move(note));
    for (Merged& device : merged_) {
      builder.add(device.facts.kind, device.node, device.number, std::move(device.facts));
    }
    close_open_links(builder);
    for (const auto& [ends, lanes] : links_) {
      const auto& [a, b, kind] = ends;
      builder.join(a, b, kind, lanes.width, lanes.gbps, lanes.source);
    }
    return builder.finish();
  }

 private:
  struct Lanes {
    int width;
    double gbps;
    std::string source;
  };

  // Returns the index of a device that another view may have shown already.
  int place_of(const HostView& view, int index, int node) {
    const Device& device = view.topology.devices[static_cast<size_t>(index)];
    if (device.kind == DeviceKind::kNvSwitch && device.node == kNoNode) {
      return place_of_outside(view.topology, index, node);
    }
    const Key by_uuid(node, device.kind, "uuid " + device.uuid), by_bus(node, device.kind, "bus " + device.bus_id);
    const Key by_name(node, device.kind, "name " + device.name);
    int place = -1;
    if (!device.uuid.empty()) place = find(by_uuid);
    if (place < 0 && !device.bus_id.empty()) place = find(by_bus);
    const bool nameless = device.uuid.empty() && device.bus_id.empty();
    if (nameless) place = find(by_name);
    if (place >= 0) {
      check_same(view.host, merged_[static_cast<size_t>(place)].facts, device);
      fill_in(merged_[static_cast<size_t>(place)].facts, device);
    } else {
      place = add_device(device, node);
    }
    if (!device.uuid.empty()) places_.emplace(by_uuid, place);
    if (!device.bus_id.empty()) places_.emplace(by_bus, place);
    if (nameless) places_.emplace(by_name, place);
    return place;
  }

  // Two machines that go by one name have different GPUs at the same addresses.
  static void check_same(const std::string& host, const Device& known, const Device& device) {
    const auto differ = [](const std::string& a, const std::string& b) { return !a.empty() && !b.empty() && a != b; };
    if (!differ(known.uuid, device.uuid) && !differ(known.bus_id, device.bus_id)) return;
    fail(ErrorCode::kInvalidArgument, "merge: two views of host ", host, " do not fit together: one has GPU ",
         known.uuid, " at ", known.bus_id, ", the other ", device.uuid, " at ", device.bus_id,
         "; are these two hosts that go by one name?");
  }

  // An NVSwitch of no node is identified by the fabric of the GPUs on it. Without a fabric it belongs to this host
  // alone.
  int place_of_outside(const Topology& topology, int index, int node) {
    std::string fabric;
    for (const Link& link : topology.links) {
      if (link.a != index && link.b != index) continue;
      fill_in(fabric, topology.devices[static_cast<size_t>(link.a == index ? link.b : link.a)].fabric);
    }
    const Device& device = topology.devices[static_cast<size_t>(index)];
    const Key key = fabric.empty() ? Key(node, device.kind, "outside " + device.name)
                                   : Key(kNoNode, device.kind, "fabric " + fabric);
    const int known = find(key);
    return known >= 0 ? known : places_[key] = add_device(device, kNoNode);
  }

  int add_device(const Device& device, int node) {
    merged_.push_back({device, node, -1});
    return static_cast<int>(merged_.size()) - 1;
  }

  void add_link(int a, int b, LinkKind kind, const Lanes& lanes) {
    const auto [link, is_new] = links_.try_emplace({std::min(a, b), std::max(a, b), kind}, lanes);
    if (!is_new && std::pair(lanes.width, lanes.gbps) > std::pair(link->second.width, link->second.gbps)) {
      link->second = lanes;
    }
  }

  // Numbers GPUs in the order of their PCI addresses, as drivers do. Those without an address follow, in the order in
  // which they were seen.
  void number_gpus() {
    std::map<int, std::vector<int>> gpus_of_node;
    for (size_t i = 0; i < merged_.size(); ++i) {
      if (merged_[i].facts.kind == DeviceKind::kGpu) gpus_of_node[merged_[i].node].push_back(static_cast<int>(i));
    }
    for (auto& [node, gpus] : gpus_of_node) {
      std::stable_sort(gpus.begin(), gpus.end(), [&](int a, int b) {
        const auto key = [&](int gpu) {
          const std::string& bus_id = merged_[static_cast<size_t>(gpu)].facts.bus_id;
          return std::tuple(bus_id.empty(), bus_id.size(), bus_id);  // longer ones have higher domains
        };
        return key(a) < key(b);
      });
      for (size_t i = 0; i < gpus.size(); ++i) merged_[static_cast<size_t>(gpus[i])].number = static_cast<int>(i);
    }
  }

  // Linux shows NICs of class infiniband only, and hosts that ranks come from are joined by something.
  void assume_nics() {
    std::map<int, int> cpu_of_node;
    std::set<int> joined, linked;  // nodes, devices
    for (const auto& [link, lanes] : links_) linked.insert({std::get<0>(link), std::get<1>(link)});
    for (size_t i = 0; i < merged_.size(); ++i) {
      const auto& [facts, node, number] = merged_[i];
      const auto index = static_cast<int>(i);
      if (facts.kind == DeviceKind::kCpu) cpu_of_node.emplace(node, index);
      if (facts.kind == DeviceKind::kNic && facts.port_gbps > 0 && linked.count(index) > 0) joined.insert(node);
    }
    if (cpu_of_node.size() < 2) return;
    const std::string assumed = join("assumed: ", kAssumedNicGbps, " GB/s, as one port of 100 Gbit/s");
    for (const auto& [node, cpu] : cpu_of_node) {
      if (joined.count(node) > 0) continue;
      Device nic;
      nic.kind = DeviceKind::kNic;
      nic.port_gbps = kAssumedNicGbps;
      nic.source = assumed;
      add_link(cpu, add_device(nic, node), LinkKind::kPcie,
               {kAssumedPcieLanes, pcie_gbps(kAssumedPcieGigatransfers, kAssumedPcieLanes), "assumed"});
      notes_.push_back(join(assumed, ", between node ", node, " and the others, since no NIC ",
                            "with a port and a link is known there"));
    }
  }

  // Adds links to devices that one view did not see, and perhaps another does.
  void close_open_links(MachineBuilder& builder) {
    std::set<std::tuple<int, std::string, LinkKind>> still_open;
    for (OpenLink& link : open_) {
      const int node = merged_[static_cast<size_t>(link.device)].node;
      const int peer = find(Key(node, DeviceKind::kGpu, "bus " + link.bus_id));
      if (peer >= 0 && peer != link.device) {
        add_link(link.device, peer, link.kind, {link.width, link.gbps, link.source});
      } else if (peer < 0 && still_open.insert({link.device, link.bus_id, link.kind}).second) {
        builder.add_open_link(std::move(link));
      }
    }
  }

  using Key = std::tuple<int, DeviceKind, std::string>;  // node, kind, and what identifies a device of that kind
  int find(const Key& key) const {
    const auto known = places_.find(key);
    return known == places_.end() ? -1 : known->second;
  }

  std::vector<Merged> merged_;
  std::map<Key, int> places_;
  std::map<std::tuple<int, int, LinkKind>, Lanes> links_;  // between indices of merged_, the lower first
  std::vector<OpenLink> open_;
  std::vector<std::string> notes_;
};

}  // namespace

Topology merge(const std::vector<HostView>& views) {
  if (views.empty()) fail(ErrorCode::kInvalidArgument, "merge: there is no view");
  Merger merger;
  std::map<std::string, int> nodes;
  for (const HostView& view : views) {
    merger.add(view, nodes.emplace(view.host, static_cast<int>(nodes.size())).first->second);
  }
  const Topology& first = views.front().topology;
  return merger.finish(first.name, join(views.size(), views.size() == 1 ? " view of " : " views of ", nodes.size(),
                                        nodes.size() == 1 ? " host; " : " hosts; ", first.source));
}

}  // namespace plait
