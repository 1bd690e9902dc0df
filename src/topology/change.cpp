// Changes by name.
#include "topology/change.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/separated.hpp"

namespace plait {
namespace {

constexpr const char* kForms = "write drop:gpu3, add:nvlink:gpu0:gpu3 (with :50 behind it for 50 GB/s) or scale:pcie:2";

class Change {
 public:
  Change(const Topology& topology, std::string_view text) : topology_(topology), text_(text) {}

  Topology made() {
    const std::vector<std::string_view> parts = separated(text_, ':');
    if (parts[0] == "drop" && parts.size() == 2) return without(parts[1]);
    if (parts[0] == "add" && (parts.size() == 4 || parts.size() == 5)) {
      const LinkKind kind = kind_of(parts[1]);
      return with_link(kind, parts[2], parts[3], parts.size() == 5 ? positive(parts[4]) : narrowest(kind));
    }
    if (parts[0] == "scale" && parts.size() == 3) return scaled(kind_of(parts[1]), positive(parts[2]));
    refuse("is no change");
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... why) const {
    fail(ErrorCode::kInvalidArgument, "what if '", text_, "' ", why..., "; ", kForms);
  }

  LinkKind kind_of(std::string_view text) const {
    LinkKind kind{};
    if (!parse(text, kind)) refuse("names no kind of link");
    return kind;
  }

  double positive(std::string_view text) const {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || !(number > 0) || std::isinf(number)) {
      refuse("ends with no number above 0");
    }
    return number;
  }

  // Finds the device of that name on each node, unless the name says which node's.
  std::vector<int> named(std::string_view name) const {
    std::vector<int> found;
    const std::string of_a_node = join(".", name);
    for (size_t i = 0; i < topology_.devices.size(); ++i) {
      const std::string& known = topology_.devices[i].name;
      if (known == name) return {static_cast<int>(i)};
      if (known.size() > of_a_node.size() && known.ends_with(of_a_node)) found.push_back(static_cast<int>(i));
    }
    if (found.empty()) device_named(topology_, name);  // which says what there is
    return found;
  }

  Topology without(std::string_view name) const {
    std::vector<int> kept = devices_of(topology_, DeviceKind::kGpu);
    for (const int device : named(name)) {
      if (std::erase(kept, device) == 0) refuse("drops what is no GPU");
    }
    return select(topology_, kept);
  }

  double narrowest(LinkKind kind) const {
    double gbps = 0;
    for (const Link& link : topology_.links) {
      if (link.kind == kind && (gbps == 0 || link.gbps < gbps)) gbps = link.gbps;
    }
    if (gbps == 0) refuse("needs a bandwidth, since ", topology_.name, " has no other link of that kind");
    return gbps;
  }

  Topology with_link(LinkKind kind, std::string_view a, std::string_view b, double gbps) const {
    const std::vector<int> from = named(a), to = named(b);
    if (from.size() != to.size()) refuse("joins one device to several");
    Topology made = topology_;
    for (size_t i = 0; i < from.size(); ++i) {
      const auto joins = [&](const Link& it) {
        return it.kind == kind && std::minmax(it.a, it.b) == std::minmax(from[i], to[i]);
      };
      const auto same = std::find_if(made.links.begin(), made.links.end(), joins);
      if (same != made.links.end()) {
        same->gbps += gbps;
      } else {
        made.add_link({from[i], to[i], kind, 1, gbps, "a change"});
      }
    }
    return made;
  }

  Topology scaled(LinkKind kind, double factor) const {
    Topology made = topology_;
    for (Link& link : made.links) {
      if (link.kind == kind) link.gbps *= factor;
    }
    for (Device& device : made.devices) {
      if (kind == LinkKind::kNetwork) device.port_gbps *= factor;
    }
    if (made == topology_ && factor != 1) refuse("scales nothing, since ", topology_.name, " has no such link");
    return made;
  }

  const Topology& topology_;
  const std::string_view text_;
};

}  // namespace

Topology changed(const Topology& topology, std::string_view changes) {
  Topology made = topology;
  for (const std::string_view change : separated(changes, ',')) made = Change(made, change).made();
  validate(made);
  return made;
}

Topology with_ports(const Topology& topology, double gbps, const std::string& source) {
  Topology made = topology;
  std::vector<bool> has_port;
  for (Device& device : made.devices) {
    has_port.push_back(device.kind == DeviceKind::kNic && device.port_gbps > 0);
    if (!has_port.back()) continue;
    device.port_gbps = gbps;
    device.source = is_assumed(device.source) ? join("assumed; ", source) : source;
  }
  for (Link& link : made.links) {
    if (!has_port[static_cast<size_t>(link.a)] && !has_port[static_cast<size_t>(link.b)]) continue;
    if (link.kind == LinkKind::kNetwork) {
      link.gbps = gbps;
      link.source = source;
    } else if (is_assumed(link.source)) {
      link.gbps = std::max(link.gbps, gbps);
    }
  }
  return made;
}

}  // namespace plait
