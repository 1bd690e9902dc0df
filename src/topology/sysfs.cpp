#include "topology/sysfs.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "base/small_file.hpp"

namespace plait {
namespace {

namespace fs = std::filesystem;

// Reads a small file, without white space at its end. Empty if it cannot be read.
std::string read_small(const fs::path& path) {
  std::string text = read_small_file(path.string());
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text;
}

template <class Number>
std::optional<Number> leading_number(const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  (void)end;
  if (error != std::errc()) return std::nullopt;
  return value;
}

// Lists the names in a folder, sorted. Empty if it cannot be read.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Lists the numbers behind `prefix` in names like "cpu12". Other names are left out.
std::vector<int> numbers_in(const fs::path& folder, const std::string& prefix) {
  std::vector<int> numbers;
  for (const std::string& name : names_in(folder)) {
    if (name.compare(0, prefix.size(), prefix) != 0) continue;
    const std::string digits = name.substr(prefix.size());
    if (digits.empty() || digits.size() > 6) continue;
    if (std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c); })) {
      numbers.push_back(std::stoi(digits));
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// "0-3,8" -> 0 1 2 3 8
std::vector<int> parse_list(const std::string& text) {
  constexpr int kMaxCpus = 1 << 16;
  std::vector<int> numbers;
  std::istringstream stream(text);
  for (std::string range; std::getline(stream, range, ',');) {
    const size_t dash = range.find('-');
    const auto first = leading_number<int>(range);
    const auto last = dash == std::string::npos ? first : leading_number<int>(range.substr(dash + 1));
    if (!first || !last || *first < 0 || *last >= kMaxCpus) continue;
    for (int i = *first; i <= *last; ++i) numbers.push_back(i);
  }
  return numbers;
}

// Returns the first text behind "key :" in /proc/cpuinfo.
std::string cpuinfo_value(const std::string& text, const std::string& key) {
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, key.size(), key) != 0) continue;
    if (line.find_first_not_of(" \t", key.size()) != colon) continue;
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? std::string() : line.substr(start);
  }
  return {};
}

double memory_gb_of(const std::string& meminfo) {
  const size_t at = meminfo.find("MemTotal:");
  if (at == std::string::npos) return 0;
  const size_t digits = meminfo.find_first_of("0123456789", at);
  if (digits == std::string::npos) return 0;
  const auto kibibytes = leading_number<double>(meminfo.substr(digits, 32));
  return kibibytes ? *kibibytes * 1024 / 1e9 : 0;
}

// Reads the firmware's memory table (HMAT) for a NUMA node and the CPUs next to it, in 10^9 bytes/s: the lesser of
// reading and writing, or 0 if it says nothing. `access1` counts CPUs only, `access0` counts whatever is nearest.
double memory_gbps_of(const fs::path& node) {
  for (const char* access : {"access1", "access0"}) {
    const auto megabytes = [&](const char* file) {
      return leading_number<double>(read_small(node / access / "initiators" / file)).value_or(0);
    };
    const double least = std::min(megabytes("read_bandwidth"), megabytes("write_bandwidth"));
    if (least > 0 && least < 1e9) return least / 1000;
  }
  return 0;
}

struct Cpu {
  int package = 0;
  int core = 0;
  int numa = 0;
  int set = 0;  // equal for CPUs that belong together
};

// Joins CPUs of one package and of one NUMA node. The smallest CPU number names each set.
void unite(std::map<int, Cpu>& cpus) {
  for (auto& [number, cpu] : cpus) cpu.set = number;
  for (bool changed = true; changed;) {
    changed = false;
    std::map<int, int> of_package, of_numa;
    for (const auto& [number, cpu] : cpus) {
      const auto lower = [&](std::map<int, int>& sets, int key) {
        const auto [place, is_new] = sets.emplace(key, cpu.set);
        if (!is_new) place->second = std::min(place->second, cpu.set);
      };
      lower(of_package, cpu.package);
      lower(of_numa, cpu.numa);
    }
    for (auto& [number, cpu] : cpus) {
      const int set = std::min(of_package[cpu.package], of_numa[cpu.numa]);
      changed |= set != cpu.set;
      cpu.set = set;
    }
  }
}

bool is_bus_id(const std::string& text) {
  const auto hex = [&](size_t from, size_t to) {
    return std::all_of(text.begin() + static_cast<ptrdiff_t>(from), text.begin() + static_cast<ptrdiff_t>(to),
                       [](unsigned char c) { return std::isxdigit(c); });
  };
  const size_t colon = text.find(':');  // domains have four digits or more
  return colon != std::string::npos && colon >= 4 && text.size() == colon + 8 && text[colon + 3] == ':' &&
         text[colon + 6] == '.' && hex(0, colon) && hex(colon + 1, colon + 3) && hex(colon + 4, colon + 6);
}

}  // namespace

Sysfs::Sysfs(std::string root, std::string cpuinfo) : root_(std::move(root)), cpuinfo_(std::move(cpuinfo)) {
  read_sockets();
}

void Sysfs::read_sockets() {
  const fs::path system = fs::path(root_) / "devices/system";
  std::map<int, Cpu> cpus;
  for (const int number : numbers_in(system / "cpu", "cpu")) {
    const fs::path topology = system / "cpu" / ("cpu" + std::to_string(number)) / "topology";
    const auto package = leading_number<int>(read_small(topology / "physical_package_id"));
    if (!package) continue;  // the CPU is offline
    const auto core = leading_number<int>(read_small(topology / "core_id"));
    cpus[number] = {std::max(*package, 0), core.value_or(number), 0, number};
  }
  std::map<int, double> memory_of_numa, gbps_of_numa;
  for (const int numa : numbers_in(system / "node", "node")) {
    const fs::path node = system / "node" / ("node" + std::to_string(numa));
    memory_of_numa[numa] = memory_gb_of(read_small(node / "meminfo"));
    gbps_of_numa[numa] = memory_gbps_of(node);
    for (const int number : parse_list(read_small(node / "cpulist"))) {
      if (const auto cpu = cpus.find(number); cpu != cpus.end()) cpu->second.numa = numa;
    }
  }
  unite(cpus);
  SysfsSocket common;
  // The first CPUs: of hundreds the kernel takes milliseconds to write it all.
  const std::string cpuinfo = read_small_file(cpuinfo_, size_t{1} << 14);
  for (const char* key : {"model name", "cpu model", "cpu", "Processor"}) {
    if (common.model.empty()) common.model = cpuinfo_value(cpuinfo, key);
  }
  common.vendor = cpuinfo_value(cpuinfo, "vendor_id");
  if (common.vendor.empty() && common.model.substr(0, 5) == "POWER") common.vendor = "IBM";
  std::map<int, int> socket_of_set;
  std::set<std::pair<int, int>> cores;
  for (const auto& [number, cpu] : cpus) {
    const auto [place, is_new] = socket_of_set.emplace(cpu.set, static_cast<int>(sockets_.size()));
    if (is_new) sockets_.push_back(common);
    SysfsSocket& socket = sockets_[static_cast<size_t>(place->second)];
    if (cores.insert({cpu.package, cpu.core}).second) socket.cores += 1;
    if (!socket_of_numa_.emplace(cpu.numa, place->second).second) continue;
    socket.memory_gb += memory_of_numa[cpu.numa];
    socket.memory_gbps += gbps_of_numa[cpu.numa];
  }
  // All NUMA nodes of a socket have to be known.
  for (const auto& [numa, socket] : socket_of_numa_) {
    if (gbps_of_numa[numa] == 0) sockets_[static_cast<size_t>(socket)].memory_gbps = 0;
  }
  if (!sockets_.empty()) return;
  common.cores = static_cast<int>(std::thread::hardware_concurrency());
  sockets_.push_back(common);
}

bool Sysfs::find_pci(const std::string& bus_id, SysfsPci& pci) const {
  const fs::path devices = fs::path(root_) / "bus/pci/devices";
  std::error_code error;
  const fs::path real = fs::canonical(devices / bus_id, error);
  if (error || !is_bus_id(bus_id)) return false;
  pci = {};
  const auto port_of = [](const fs::path& folder) {
    SysfsPciLink port;
    port.gigatransfers =
        std::clamp(leading_number<double>(read_small(folder / "max_link_speed")).value_or(0), 0.0, 1000.0);
    port.lanes = std::clamp(leading_number<int>(read_small(folder / "max_link_width")).value_or(0), 0, 64);
    if (port.lanes > 32) port.lanes = 0;  // 63 and 255 are what ports without a link report
    return port;
  };
  fs::path at;
  for (const fs::path& part : real) {
    at /= part;
    if (!is_bus_id(part.string())) continue;
    if (part.string() != bus_id) pci.bridges.push_back(part.string());
    pci.ports.push_back(port_of(at));
  }
  const auto numa = leading_number<int>(read_small(real / "numa_node"));
  const auto socket = numa ? socket_of_numa_.find(*numa) : socket_of_numa_.end();
  if (socket != socket_of_numa_.end()) pci.socket = socket->second;
  return pci.ports.size() == pci.bridges.size() + 1;
}

std::vector<SysfsNic> Sysfs::nics() const {
  std::vector<SysfsNic> found;
  const fs::path devices = fs::path(root_) / "bus/pci/devices";
  for (const std::string& bus_id : names_in(devices)) {
    for (const std::string& name : names_in(devices / bus_id / "infiniband")) {
      SysfsNic nic{name, bus_id, 0};
      const fs::path ports = devices / bus_id / "infiniband" / name / "ports";
      for (const std::string& port : names_in(ports)) {
        if (read_small(ports / port / "state").find("ACTIVE") == std::string::npos) continue;
        const auto gigabits = leading_number<double>(read_small(ports / port / "rate"));
        if (gigabits && *gigabits > 0 && *gigabits < 1e6) nic.port_gbps += *gigabits / 8;
      }
      found.push_back(std::move(nic));
    }
  }
  return found;
}

}  // namespace plait
