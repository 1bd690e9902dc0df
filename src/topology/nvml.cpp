#include "topology/nvml.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <memory>

#include "base/error.hpp"

namespace plait {
namespace {

// The few declarations of NVML that are needed, matching its binary interface.
using NvmlDevice = void*;
constexpr int kSuccess = 0;
constexpr int kPeerRead = 0;  // the P2P question "can read"
constexpr int kPeerOk = 0;    // the good answer to it
constexpr unsigned kMostLinks = 64;
constexpr unsigned kFieldLinkSpeed = 164;  // 10^6 bytes/s of the link in scope_id
constexpr unsigned kFieldC2cCount = 170;
constexpr unsigned kFieldC2cSpeed = 172;

struct NvmlPciInfo {
  char legacy_bus_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

// The NVLink domain that joins GPUs of several hosts. This is version 2, which drivers know from 550 on.
struct NvmlFabricInfo {
  unsigned version;
  unsigned char cluster_uuid[16];
  int status;
  unsigned clique_id;
  unsigned char state;
  unsigned health_mask;
};
constexpr unsigned kFabricInfoVersion = sizeof(NvmlFabricInfo) | 2u << 24;
constexpr unsigned char kFabricCompleted = 3;

struct NvmlFieldValue {
  unsigned field_id;
  unsigned scope_id;
  long long timestamp;
  long long latency;
  int value_type;
  int status;
  union {
    double as_double;
    unsigned as_unsigned;
    unsigned long as_unsigned_long;
    unsigned long long as_unsigned_long_long;
    long long as_long_long;
    int as_int;
  } value;
};

class Library {
 public:
  explicit Library(const std::string& name) : handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {}
  ~Library() {
    if (handle_) dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  bool open() const { return handle_ != nullptr; }

  // Calls the named function. If this driver does not have it, fails as NVML itself does.
  template <class... Arguments>
  int call(const char* function, Arguments... arguments) const {
    constexpr int kFunctionNotFound = 13;
    using Function = int (*)(Arguments...);
    const auto pointer = reinterpret_cast<Function>(dlsym(handle_, function));
    return pointer ? pointer(arguments...) : kFunctionNotFound;
  }

  // Returns a field's value as a number; 0 if the driver does not know it.
  double field(NvmlDevice device, unsigned field_id, unsigned scope_id) const {
    NvmlFieldValue value{};
    value.field_id = field_id;
    value.scope_id = scope_id;
    if (call("nvmlDeviceGetFieldValues", device, 1, &value) != kSuccess || value.status != kSuccess) return 0;
    switch (value.value_type) {
      case 0:
        return value.value.as_double;
      case 1:
        return value.value.as_unsigned;
      case 2:
        return static_cast<double>(value.value.as_unsigned_long);
      case 3:
        return static_cast<double>(value.value.as_unsigned_long_long);
      case 4:
        return static_cast<double>(value.value.as_long_long);
      case 5:
        return value.value.as_int;
      default:
        return 0;
    }
  }

 private:
  void* handle_;
};

std::vector<NvmlLink> read_links(const Library& nvml, NvmlDevice device) {
  std::vector<NvmlLink> links;
  for (unsigned link = 0; link < kMostLinks; ++link) {
    unsigned active = 0;
    if (nvml.call("nvmlDeviceGetNvLinkState", device, link, &active) != kSuccess) break;
    if (!active) continue;
    NvmlLink found;
    int type = 0xff;
    nvml.call("nvmlDeviceGetNvLinkRemoteDeviceType", device, link, &type);
    if (type >= 0 && type <= 2) found.remote = static_cast<NvmlLink::Remote>(type);
    NvmlPciInfo remote{};
    if (nvml.call("nvmlDeviceGetNvLinkRemotePciInfo_v2", device, link, &remote) == kSuccess) {
      found.bus_id = normal_bus_id(remote.bus_id);
    }
    found.gbps = nvml.field(device, kFieldLinkSpeed, link) / 1000;
    links.push_back(std::move(found));
  }
  return links;
}

// Returns cluster UUID and clique: two GPUs are in one domain if both are equal. A machine without such a domain has a
// UUID of zeros.
std::string read_fabric(const Library& nvml, NvmlDevice device) {
  NvmlFabricInfo info{};
  info.version = kFabricInfoVersion;
  if (nvml.call("nvmlDeviceGetGpuFabricInfoV", device, &info) != kSuccess) return "";
  const auto is_zero = [](unsigned char byte) { return byte == 0; };
  if (info.state != kFabricCompleted || info.status != kSuccess ||
      std::all_of(std::begin(info.cluster_uuid), std::end(info.cluster_uuid), is_zero)) {
    return "";
  }
  constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : info.cluster_uuid) {
    if (text.size() == 8 || text.size() == 13 || text.size() == 18 || text.size() == 23) text += '-';
    text += {kHex[byte >> 4], kHex[byte & 15]};
  }
  return join(text, ".", info.clique_id);
}

NvmlGpu read_gpu(const Library& nvml, NvmlDevice device) {
  NvmlGpu gpu;
  char name[96] = "";
  if (nvml.call("nvmlDeviceGetName", device, name, unsigned{sizeof name}) == kSuccess) gpu.name = name;
  NvmlPciInfo pci{};
  if (nvml.call("nvmlDeviceGetPciInfo_v3", device, &pci) == kSuccess) gpu.bus_id = normal_bus_id(pci.bus_id);
  char uuid[96] = "";
  if (nvml.call("nvmlDeviceGetUUID", device, uuid, unsigned{sizeof uuid}) == kSuccess) gpu.uuid = uuid;
  gpu.fabric = read_fabric(nvml, device);
  int major = 0, minor = 0;
  if (nvml.call("nvmlDeviceGetCudaComputeCapability", device, &major, &minor) == kSuccess) gpu.sm = major * 10 + minor;
  unsigned generation = 0, lanes = 0;
  if (nvml.call("nvmlDeviceGetMaxPcieLinkGeneration", device, &generation) == kSuccess) {
    gpu.pcie_generation = static_cast<int>(generation);
  }
  if (nvml.call("nvmlDeviceGetMaxPcieLinkWidth", device, &lanes) == kSuccess) gpu.pcie_lanes = static_cast<int>(lanes);
  gpu.links = read_links(nvml, device);
  gpu.c2c_links = static_cast<int>(std::clamp(nvml.field(device, kFieldC2cCount, 0), 0.0, 64.0));
  if (gpu.c2c_links > 0) gpu.c2c_gbps = nvml.field(device, kFieldC2cSpeed, 0) / 1000;
  return gpu;
}

NvmlFacts read_all(const Library& nvml) {
  NvmlFacts facts;
  unsigned count = 0;
  if (nvml.call("nvmlDeviceGetCount_v2", &count) != kSuccess || count == 0) {
    facts.note = "NVML reports no GPU";
    return facts;
  }
  std::vector<NvmlDevice> devices;
  for (unsigned i = 0; i < count; ++i) {
    NvmlDevice device = nullptr;
    // A GPU that fell off the bus, or that is hidden from this user, does not count.
    if (nvml.call("nvmlDeviceGetHandleByIndex_v2", i, &device) != kSuccess) continue;
    devices.push_back(device);
    facts.gpus.push_back(read_gpu(nvml, device));
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      int status = kPeerOk;
      const int result = nvml.call("nvmlDeviceGetP2PStatus", devices[j], devices[i], kPeerRead, &status);
      if (result == kSuccess && status != kPeerOk)
        facts.unreachable.emplace_back(static_cast<int>(j), static_cast<int>(i));
    }
  }
  return facts;
}

}  // namespace

NvmlFacts read_nvml(const std::string& library) {
  const Library nvml(library);
  NvmlFacts facts;
  if (!nvml.open()) {
    facts.note = join("no NVML (", library, "), so no GPUs");
    return facts;
  }
  if (const int status = nvml.call("nvmlInit_v2"); status != kSuccess) {
    facts.note = join("NVML does not start (status ", status, "), so no GPUs");
    return facts;
  }
  facts = read_all(nvml);
  nvml.call("nvmlShutdown");
  return facts;
}

std::string normal_bus_id(const std::string& bus_id) {
  std::string text = bus_id;
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const size_t colon = text.find(':');
  if (colon == std::string::npos || colon <= 4) return text;
  const bool padded = text.find_first_not_of('0') >= colon - 4;
  return padded ? text.substr(colon - 4) : text;
}

}  // namespace plait
