#include "topology/describe.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "base/printable.hpp"
#include "topology/paths.hpp"

namespace plait {
namespace {

constexpr size_t kWidth = 120;
constexpr size_t kMostItems = 48;  // names in one row; the rest is only counted

// Formats a number with four digits, which are enough for people: "12.5", "478.1".
std::string brief(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", number);
  return text;
}

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

const char* caption(DeviceKind kind, size_t count) {
  constexpr std::pair<const char*, const char*> kCaptions[] = {{"GPU", "GPUs"},
                                                               {"CPU", "CPUs"},
                                                               {"memory", "memories"},
                                                               {"NVSwitch", "NVSwitches"},
                                                               {"PCIe switch", "PCIe switches"},
                                                               {"NIC", "NICs"},
                                                               {"network switch", "network switches"}};
  const auto& [one, many] = kCaptions[static_cast<size_t>(kind)];
  return count == 1 ? one : many;
}

std::string header(const Topology& topology) {
  std::string text = join(topology.name, ": ", topology.nodes, topology.nodes == 1 ? " node" : " nodes");
  for (const DeviceKind kind : {DeviceKind::kGpu, DeviceKind::kCpu, DeviceKind::kMemory, DeviceKind::kNvSwitch,
                                DeviceKind::kPcieSwitch, DeviceKind::kNic, DeviceKind::kNetSwitch}) {
    const size_t count = devices_of(topology, kind).size();
    if (count > 0 || kind == DeviceKind::kGpu) text += join(", ", count, " ", caption(kind, count));
  }
  return text + "\n";
}

// Appends items one after the other, in lines of at most kWidth columns. Lines after the first are indented.
std::string wrapped(const std::string& start, const std::vector<std::string>& items) {
  std::string text = start;
  size_t column = start.size();
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0 && column + 1 + items[i].size() > kWidth) {
      text += "\n" + std::string(start.size(), ' ');
      column = start.size();
    } else if (i > 0) {
      text += ' ';
      column += 1;
    }
    text += items[i];
    column += items[i].size();
  }
  return text + "\n";
}

// "n0.gpu3" -> "n0.gpu" and 3; -1 if there is no number.
std::pair<std::string, long> split_number(const std::string& name) {
  size_t digits = name.size();
  while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1]))) --digits;
  if (digits == name.size() || name.size() - digits > 9) return {name, -1};
  return {name.substr(0, digits), std::stol(name.substr(digits))};
}

// gpu0 gpu1 gpu2 -> "gpu0-2"
std::vector<std::string> ranges(const std::vector<std::string>& names) {
  std::vector<std::string> result;
  for (size_t first = 0; first < names.size();) {
    const auto [stem, number] = split_number(names[first]);
    size_t last = first;
    while (number >= 0 && last + 1 < names.size() &&
           split_number(names[last + 1]) == std::pair(stem, number + static_cast<long>(last + 1 - first))) {
      ++last;
    }
    result.push_back(last == first ? names[first] : join(names[first], "-", number + static_cast<long>(last - first)));
    first = last + 1;
  }
  return result;
}

void cut(std::vector<std::string>& items) {
  if (items.size() <= kMostItems) return;
  const size_t left_out = items.size() - kMostItems;
  items.resize(kMostItems);
  items.push_back(join("… ", left_out, " more"));
}

// A device's name without its node: "n3.gpu0" -> "gpu0".
std::string short_name(const Topology& topology, int index) {
  const Device& device = topology.devices[static_cast<size_t>(index)];
  const std::string prefix = join("n", device.node, ".");
  const bool has_prefix = device.name.size() > prefix.size() && device.name.compare(0, prefix.size(), prefix) == 0;
  return has_prefix ? device.name.substr(prefix.size()) : device.name;
}

// Texts by their node, or kNoNode.
using ByNode = std::map<int, std::vector<std::string>>;

// All texts in order. With several nodes, those of equal nodes come once, after "n0-63:".
std::vector<std::string> merge_nodes(const Topology& topology, const ByNode& by_node) {
  std::vector<std::string> items;
  for (auto first = by_node.begin(); first != by_node.end();) {
    auto last = first;
    for (auto next = std::next(first); next != by_node.end(); last = next++) {
      if (next->first != last->first + 1 || next->second != first->second || first->first == kNoNode) break;
    }
    if (topology.nodes > 1 && first->first != kNoNode) {
      items.push_back(first == last ? join("n", first->first, ":") : join("n", first->first, "-", last->first, ":"));
    }
    items.insert(items.end(), first->second.begin(), first->second.end());
    first = std::next(last);
  }
  cut(items);
  return items;
}

std::string facts(const Device& device) {
  std::string text = device.model;
  const auto add = [&](const std::string& fact) { text += (text.empty() ? "" : ", ") + fact; };
  if (device.cores > 0) add(join(counted(device.cores, "core")));
  if (device.memory_gb > 0) add(brief(device.memory_gb) + " GB");
  if (device.port_gbps > 0) add(brief(device.port_gbps) + " GB/s");
  return text;
}

// Rows keep the order in which their first elements come.
template <class Key>
class Rows {
 public:
  ByNode& of(const Key& key) {
    const auto [place, is_new] = places_.try_emplace(key, rows_.size());
    if (is_new) rows_.emplace_back(key, ByNode());
    return rows_[place->second].second;
  }
  bool empty() const { return rows_.empty(); }
  auto begin() { return rows_.begin(); }
  auto end() { return rows_.end(); }

 private:
  std::map<Key, size_t> places_;
  std::vector<std::pair<Key, ByNode>> rows_;
};

std::string device_table(const Topology& topology) {
  Rows<std::pair<DeviceKind, std::string>> rows;
  for (size_t i = 0; i < topology.devices.size(); ++i) {
    const Device& device = topology.devices[i];
    rows.of({device.kind, facts(device)})[device.node].push_back(short_name(topology, static_cast<int>(i)));
  }
  std::string text = "devices\n";
  for (auto& [key, by_node] : rows) {
    size_t count = 0;
    for (auto& [node, names] : by_node) {
      count += names.size();
      names = ranges(names);
    }
    std::vector<std::string> items = merge_nodes(topology, by_node);
    if (!key.second.empty()) items.push_back("(" + key.second + ")");
    text += wrapped("  " + padded(name(key.first), 12) + padded(join(count), 6), items);
  }
  return text;
}

std::string link_table(const Topology& topology) {
  using Key = std::tuple<LinkKind, int, double>;  // kind, width, bandwidth
  Rows<Key> rows;
  for (const Link& link : topology.links) {
    const int node = std::max(topology.devices[static_cast<size_t>(link.a)].node,
                              topology.devices[static_cast<size_t>(link.b)].node);
    rows.of({link.kind, link.width, link.gbps})[node].push_back(short_name(topology, link.a) + "~" +
                                                                short_name(topology, link.b));
  }
  if (rows.empty()) return "";
  std::string text = "links (GB/s per direction)\n";
  for (auto& [key, by_node] : rows) {
    const auto& [kind, width, gbps] = key;
    text += wrapped("  " + padded(name(kind), 12) + padded(join("x", width), 6) + padded(brief(gbps), 8),
                    merge_nodes(topology, by_node));
  }
  return text;
}

std::string path_matrix(const Topology& topology) {
  const std::vector<int> gpus = devices_of(topology, DeviceKind::kGpu);
  if (gpus.size() < 2 || gpus.size() > 16) return "";
  const PathFinder finder(topology);
  std::vector<std::vector<std::string>> table = {{""}};
  for (const int to : gpus) table[0].push_back(topology.devices[static_cast<size_t>(to)].name);
  for (const int from : gpus) {
    std::vector<std::string> row = {topology.devices[static_cast<size_t>(from)].name};
    for (const int to : gpus) {
      if (from == to) {
        row.push_back("X");
        continue;
      }
      const std::optional<Path> path = finder.best(from, to);
      if (!path) {
        row.push_back("none");
      } else {
        row.push_back(
            join(path->kind == PathKind::kDirect ? name(path->medium) : name(path->kind), " ", brief(path->gbps)));
      }
    }
    table.push_back(std::move(row));
  }
  size_t width = 0;
  for (const auto& row : table) {
    for (const std::string& cell : row) width = std::max(width, cell.size());
  }
  std::string text = "best path between GPUs\n";
  for (const auto& row : table) {
    std::string line = "  ";
    for (const std::string& cell : row) line += padded(cell, width + 2);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::string to_text(const Topology& topology) {
  std::string text = header(topology);
  if (!topology.source.empty()) text += "source: " + topology.source + "\n";
  for (const std::string& note : topology.notes) text += "note: " + note + "\n";
  return printable(text + device_table(topology) + link_table(topology) + path_matrix(topology));
}

std::string to_text(const Topology& topology, const std::vector<Group>& groups) {
  std::string text;
  for (size_t i = 0; i < groups.size(); ++i) text += format_group(topology, groups[i], static_cast<int>(i)) + "\n";
  return text;
}

}  // namespace plait
