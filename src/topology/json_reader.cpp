// Reads and writes the machine format. It lists sets of like devices and sets of like links, so that a machine fits on
// a screen.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "base/json.hpp"
#include "topology/readers.hpp"

namespace plait {
namespace {

constexpr std::string_view kFormat = "plait-machine 1";
constexpr int kMaxNodes = 1 << 20;
constexpr double kLeastGbps = 1e-6;  // of a link; then times are numbers
constexpr int kMaxLanes = 1 << 20;

std::string optional_text(const JsonValue& object, const char* member) {
  const auto value = object.find(member);
  return value ? std::string(value->as_string()) : std::string();
}

double bounded_number(const JsonValue& value, double low, bool low_allowed, const char* expected) {
  const double number = value.as_number();
  if (!(low_allowed ? number >= low : number > low) || !std::isfinite(number)) value.fail_expected(expected);
  return number;
}

class MachineJsonReader {
 public:
  explicit MachineJsonReader(const JsonValue& root) : root_(root) {}

  Topology read() {
    if (!root_.is_object()) root_.fail_expected("an object, a machine");
    const JsonValue format = root_.at("format");
    if (format.as_string() != kFormat) format.fail_expected(join("\"", kFormat, "\""));
    root_.allow_only({"format", "name", "source", "notes", "nodes", "devices", "links", "open_links", "network"});
    topology_.name = root_.at("name").as_name();
    if (topology_.name.empty()) root_.at("name").fail_expected("a name that is not empty");
    topology_.source = optional_text(root_, "source");
    if (const auto notes = root_.find("notes")) {
      read_elements(*notes, [&](const JsonValue& note) { topology_.notes.emplace_back(note.as_name()); });
    }
    if (const auto nodes = root_.find("nodes")) topology_.nodes = static_cast<int>(nodes->as_integer(1, kMaxNodes));
    read_elements(root_.at("devices"), [&](const JsonValue& set) { read_devices(set); });
    if (const auto links = root_.find("links")) {
      read_elements(*links, [&](const JsonValue& set) { read_links(set); });
    }
    if (const auto links = root_.find("open_links")) {
      read_elements(*links, [&](const JsonValue& set) { read_open_links(set); });
    }
    if (const auto network = root_.find("network")) read_network(*network);
    return std::move(topology_);
  }

 private:
  template <class Read>
  static void read_elements(const JsonValue& array, Read read) {
    if (!array.is_array()) array.fail_expected("an array");
    for (size_t i = 0; i < array.size(); ++i) read(array.at(i));
  }

  void read_devices(const JsonValue& set) {
    set.allow_only(
        {"kind", "names", "node", "model", "bus_ids", "uuids", "fabric", "cores", "memory_gb", "port_gbps", "source"});
    Device device;
    if (!parse(set.at("kind").as_string(), device.kind)) {
      set.at("kind").fail_expected("gpu, cpu, memory, nvswitch, pcieswitch, nic or netswitch");
    }
    if (const auto node = set.find("node")) device.node = read_node(*node, device.kind);
    device.model = optional_text(set, "model");
    device.fabric = optional_text(set, "fabric");
    device.source = optional_text(set, "source");
    constexpr int kMaxCores = 1 << 20;
    if (const auto cores = set.find("cores")) device.cores = static_cast<int>(cores->as_integer(0, kMaxCores));
    if (const auto memory = set.find("memory_gb"))
      device.memory_gb = bounded_number(*memory, 0, true, "a size of 0 or more");
    if (const auto port = set.find("port_gbps")) {
      device.port_gbps = bounded_number(*port, 0, true, "a bandwidth of 0 or more");
    }
    const JsonValue names = set.at("names");
    const auto bus_ids = set.find("bus_ids"), uuids = set.find("uuids");
    if (bus_ids && bus_ids->size() != names.size()) {
      bus_ids->fail_expected(join("one bus id for each of the ", counted(names.size(), "name")));
    }
    if (uuids && uuids->size() != names.size()) {
      uuids->fail_expected(join("one UUID for each of the ", counted(names.size(), "name")));
    }
    size_t next = 0;
    read_elements(names, [&](const JsonValue& name) {
      device.name = name.as_name();
      if (device.name.empty()) name.fail_expected("a name that is not empty");
      device.bus_id = bus_ids ? std::string(bus_ids->at(next).as_string()) : std::string();
      device.uuid = uuids ? std::string(uuids->at(next).as_string()) : std::string();
      ++next;
      if (!indices_.emplace(device.name, static_cast<int>(topology_.devices.size())).second) {
        name.fail_expected("a name that no other device has");
      }
      if (topology_.devices.size() == kMostDevices) name.fail_expected(join("at most ", kMostDevices, " devices"));
      topology_.add_device(device);
    });
  }

  int read_node(const JsonValue& value, DeviceKind kind) const {
    const int low = kind == DeviceKind::kNetSwitch || kind == DeviceKind::kNvSwitch ? kNoNode : 0;
    return static_cast<int>(value.as_integer(low, topology_.nodes - 1));
  }

  int device_of(const JsonValue& value) const {
    const auto found = indices_.find(std::string(value.as_string()));
    if (found == indices_.end()) value.fail_expected("the name of a device of this machine");
    return found->second;
  }

  // Reads what links and open links have in common.
  template <class AnyLink>
  static AnyLink read_link_set(const JsonValue& set) {
    set.allow_only({"kind", "width", "gbps", "pairs", "source"});
    AnyLink link;
    if (!parse(set.at("kind").as_string(), link.kind)) {
      set.at("kind").fail_expected("nvlink, xgmi, pcie, socket, memory or network");
    }
    if (const auto width = set.find("width")) link.width = static_cast<int>(width->as_integer(1, kMaxLanes));
    link.gbps = bounded_number(set.at("gbps"), kLeastGbps, true, "a bandwidth of 0.000001 or more");
    link.source = optional_text(set, "source");
    return link;
  }

  void read_open_links(const JsonValue& set) {
    OpenLink link = read_link_set<OpenLink>(set);
    read_elements(set.at("pairs"), [&](const JsonValue& pair) {
      if (!pair.is_array() || pair.size() != 2) pair.fail_expected("an array of a GPU's name and a bus id");
      link.device = device_of(pair.at(size_t{0}));
      link.bus_id = pair.at(size_t{1}).as_string();
      if (topology_.open_links.size() == kMostLinks) pair.fail_expected(join("at most ", kMostLinks, " links"));
      topology_.open_links.push_back(link);
    });
  }

  void read_links(const JsonValue& set) {
    Link link = read_link_set<Link>(set);
    read_elements(set.at("pairs"), [&](const JsonValue& pair) {
      if (!pair.is_array() || pair.size() != 2) pair.fail_expected("an array of two device names");
      link.a = device_of(pair.at(size_t{0}));
      link.b = device_of(pair.at(size_t{1}));
      if (link.a == link.b) pair.fail_expected("two different devices");
      if (topology_.links.size() == kMostLinks) pair.fail_expected(join("at most ", kMostLinks, " links"));
      topology_.add_link(link);
    });
  }

  void read_network(const JsonValue& network) {
    network.allow_only({"rack_nodes", "bisection", "source"});
    if (const auto rack = network.find("rack_nodes")) {
      topology_.network.rack_nodes = static_cast<int>(rack->as_integer(0, kMaxNodes));
    }
    if (const auto bisection = network.find("bisection")) {
      topology_.network.bisection = bounded_number(*bisection, 0, false, "a fraction above 0 and at most 1");
      if (topology_.network.bisection > 1) bisection->fail_expected("a fraction above 0 and at most 1");
    }
    topology_.network.source = optional_text(network, "source");
  }

  JsonValue root_;
  Topology topology_;
  std::unordered_map<std::string, int> indices_;
};

// Whether `b` can be in one set with `a`: all but name, bus id and UUID agree.
bool same_set(const Device& a, Device b) {
  const bool both_have = a.bus_id.empty() == b.bus_id.empty() && a.uuid.empty() == b.uuid.empty();
  b.name = a.name;
  b.bus_id = a.bus_id;
  b.uuid = a.uuid;
  return both_have && a == b;
}

bool same_set(const Link& a, Link b) {
  b.a = a.a;
  b.b = a.b;
  return a == b;
}

bool same_set(const OpenLink& a, OpenLink b) {
  b.device = a.device;
  b.bus_id = a.bus_id;
  return a == b;
}

// Calls write(first, last) for each longest run of elements that can be in one set.
template <class Element, class Write>
void for_each_run(const std::vector<Element>& elements, Write write) {
  for (size_t first = 0; first < elements.size();) {
    size_t last = first + 1;
    while (last < elements.size() && same_set(elements[first], elements[last])) ++last;
    write(first, last);
    first = last;
  }
}

void write_optional(JsonWriter& json, const char* key, const std::string& text) {
  if (!text.empty()) json.key(key).value(text);
}

void write_devices(JsonWriter& json, const std::vector<Device>& devices) {
  json.key("devices").begin_array();
  for_each_run(devices, [&](size_t first, size_t last) {
    const Device& device = devices[first];
    json.begin_object();
    json.key("kind").value(name(device.kind));
    if (device.node != 0) json.key("node").value(device.node);
    json.key("names").begin_array();
    for (size_t i = first; i < last; ++i) json.value(devices[i].name);
    json.end();
    write_optional(json, "model", device.model);
    const auto write_of_each = [&](const char* key, std::string Device::* member) {
      if ((device.*member).empty()) return;
      json.key(key).begin_array();
      for (size_t i = first; i < last; ++i) json.value(devices[i].*member);
      json.end();
    };
    write_of_each("bus_ids", &Device::bus_id);
    write_of_each("uuids", &Device::uuid);
    write_optional(json, "fabric", device.fabric);
    if (device.cores != 0) json.key("cores").value(device.cores);
    if (device.memory_gb != 0) json.key("memory_gb").value(device.memory_gb);
    if (device.port_gbps != 0) json.key("port_gbps").value(device.port_gbps);
    write_optional(json, "source", device.source);
    json.end();
  });
  json.end();
}

// `ends` returns the two texts that identify a link.
template <class AnyLink, class Ends>
void write_links(JsonWriter& json, const char* key, const std::vector<AnyLink>& links, Ends ends) {
  json.key(key).begin_array();
  for_each_run(links, [&](size_t first, size_t last) {
    const AnyLink& link = links[first];
    json.begin_object();
    json.key("kind").value(name(link.kind)).key("width").value(link.width).key("gbps").value(link.gbps);
    json.key("pairs").begin_array();
    for (size_t i = first; i < last; ++i) {
      const auto& [a, b] = ends(links[i]);
      json.begin_array().value(a).value(b).end();
    }
    json.end();
    write_optional(json, "source", link.source);
    json.end();
  });
  json.end();
}

}  // namespace

Topology parse_machine_json(std::string_view text, const std::string& file) {
  const JsonDocument document = JsonDocument::parse(text, file);
  Topology topology = MachineJsonReader(document.root()).read();
  try {
    validate(topology);
  } catch (const Error& error) {
    fail(ErrorCode::kInvalidInput, file, ":1: ", error.what());
  }
  return topology;
}

std::string to_json(const Topology& topology) {
  JsonWriter json;
  json.begin_object();
  json.key("format").value(kFormat).key("name").value(topology.name);
  write_optional(json, "source", topology.source);
  if (!topology.notes.empty()) {
    json.key("notes").begin_array();
    for (const std::string& note : topology.notes) json.value(note);
    json.end();
  }
  if (topology.nodes != 1) json.key("nodes").value(topology.nodes);
  write_devices(json, topology.devices);
  const auto device_name = [&](int index) { return topology.devices[static_cast<size_t>(index)].name; };
  write_links(json, "links", topology.links,
              [&](const Link& link) { return std::pair(device_name(link.a), device_name(link.b)); });
  if (!topology.open_links.empty()) {
    write_links(json, "open_links", topology.open_links,
                [&](const OpenLink& link) { return std::pair(device_name(link.device), link.bus_id); });
  }
  if (topology.network != Network{}) {
    json.key("network").begin_object();
    json.key("rack_nodes").value(topology.network.rack_nodes);
    json.key("bisection").value(topology.network.bisection);
    write_optional(json, "source", topology.network.source);
    json.end();
  }
  json.end();
  return json.take();
}

}  // namespace plait
