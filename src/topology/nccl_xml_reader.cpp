// Reads the topology files of NCCL and RCCL. They are trees of CPUs (NUMA nodes), PCIe switches and endpoints. The
// NVLinks (xGMI links) of a GPU are its children.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "topology/builder.hpp"
#include "topology/gpu_models.hpp"
#include "topology/nccl_nets.hpp"
#include "topology/readers.hpp"
#include "topology/xml.hpp"

namespace plait {
namespace {

using internal::MachineBuilder;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string text_of(const XmlElement& element, std::string_view attribute) {
  const std::string* text = element.find(attribute);
  return text ? *text : std::string();
}

class NcclXmlReader {
 public:
  NcclXmlReader(const std::string& file, const GpuModel* gpu_model)
      : file_(file), gpu_model_(gpu_model), builder_(internal::stem(file), "NCCL topology file " + file) {}

  Topology read(const XmlElement& root) {
    if (root.name != "system") fail_expected(root, "<system>, an NCCL topology", "<" + root.name + ">");
    for (const XmlElement& child : root.children) {
      if (child.name == "cpu") nets_.collect(child, node_of(child));
    }
    for (const std::string& name : nets_.choose()) {
      builder_.leave_out("NICs that are listed alone and as a part of another", name);
    }
    for (const XmlElement& child : root.children) {
      if (child.name == "cpu") read_cpu(child);
    }
    if (builder_.size() == 0) fail_expected(root, "at least one <cpu> in <system>", "none");
    if (gpu_model_ && !used_statement_) internal::fail_model_is_known(file_);
    number_gpus();
    read_gpu_links();
    add_notes();
    return builder_.finish();
  }

 private:
  struct Gpu {
    int device;
    const XmlElement* element;  // null if the file lists only the PCI device
    int sm;
    bool amd;
    std::string gcn;  // of AMD's GPUs: "942" or "gfx942"
    std::string bus_id;
    int cpu;
    int node;
    int number;
    int rank;
  };

  [[noreturn]] void fail_expected(const XmlElement& at, const std::string& expected, const std::string& found) const {
    fail(ErrorCode::kInvalidInput, file_, ":", at.line, ": expected ", expected, ", found ", found);
  }

  // Reads a whole number from an attribute; `missing` if it is not there or empty.
  int integer(const XmlElement& element, std::string_view attribute, int missing, int low, int high) const {
    const std::string text = text_of(element, attribute);
    if (text.empty()) return missing;
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
      fail_expected(element, join(attribute, " to be a whole number from ", low, " to ", high), "\"" + text + "\"");
    }
    return value;
  }

  // Reads the number that starts an attribute, such as "16.0 GT/s PCIe"; 0 if there is none ("Unknown speed").
  double leading_number(const XmlElement& element, std::string_view attribute, double high) const {
    const std::string text = text_of(element, attribute);
    const bool negative = text.substr(0, 1) == "-";
    if (text.empty() || !(negative || std::isdigit(static_cast<unsigned char>(text[0])))) return 0;
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    (void)end;
    if (error != std::errc() || !(value >= 0 && value <= high)) {
      fail_expected(element, join(attribute, " to be from 0 to ", high), "\"" + text + "\"");
    }
    return value;
  }

  int node_of(const XmlElement& cpu) {
    const std::string hash = text_of(cpu, "host_hash");
    return hosts_.emplace(hash, static_cast<int>(hosts_.size())).first->second;
  }

  void read_cpu(const XmlElement& element) {
    constexpr int kMaxNumber = 1 << 20;
    constexpr size_t kMostCpus = 1024;
    node_ = node_of(element);
    const int numa = integer(element, "numaid", -1, -1, kMaxNumber);
    const std::string vendor = text_of(element, "vendor");
    const std::string architecture = text_of(element, "arch");
    std::string model = vendor.empty() ? architecture : vendor;
    if (const std::string family = text_of(element, "familyid"); !family.empty()) model += " family " + family;
    if (const std::string id = text_of(element, "modelid"); !id.empty()) model += " model " + id;
    if (numa >= 0) model += join(model.empty() ? "" : ", ", "NUMA node ", numa);
    // The rule is one <cpu> per NUMA node. A file that lists one twice means the same one.
    const auto [place, is_new] = cpus_.emplace(std::pair(node_, numa), -1);
    if (is_new) {
      if (cpus_.size() > kMostCpus) fail_expected(element, join("at most ", kMostCpus, " CPUs"), "more");
      Device device;
      device.model = model;
      place->second = builder_.add(DeviceKind::kCpu, node_, numa, std::move(device));
      builder_.set_vendor(place->second, vendor.empty() ? architecture : vendor);
    }
    cpu_ = place->second;
    read_children(element, cpu_);
  }

  void read_children(const XmlElement& element, int parent) {
    for (const XmlElement& child : element.children) {
      if (child.name == "pci") read_pci(child, parent);
      if (child.name == "nic" && element.name == "cpu") read_placeless_nic(child, parent);
    }
  }

  static const XmlElement* child_named(const XmlElement& element, std::string_view wanted) {
    const auto is_wanted = [&](const XmlElement& child) { return child.name == wanted; };
    const auto found = std::find_if(element.children.begin(), element.children.end(), is_wanted);
    return found == element.children.end() ? nullptr : &*found;
  }

  void read_pci(const XmlElement& element, int parent) {
    const std::string bus_id = lower(text_of(element, "busid"));
    if (bus_id.empty()) fail_expected(element, "a busid in <pci>", "none");
    if (!bus_ids_.insert({node_, bus_id}).second) fail_expected(element, "each busid once", bus_id + " again");
    const std::string pci_class = text_of(element, "class");
    const std::string vendor = text_of(element, "vendor");
    const XmlElement* gpu = child_named(element, "gpu");
    const XmlElement* nic = child_named(element, "nic");
    if (nic && !nets_.counts(node_, *nic)) nic = nullptr;
    const bool has_devices = child_named(element, "pci") != nullptr;
    const bool display = is_gpu_class(pci_class) && (vendor.empty() || lower(vendor) == "0x10de" || is_amd(element));
    int device = -1;
    if (gpu || (display && !has_devices)) {
      device = add_gpu(element, gpu, bus_id);
    } else if (nic || (pci_class.substr(0, 4) == "0x02" && !has_devices)) {
      device = add_nic(element, nic, bus_id);
    } else if (has_devices) {
      device = builder_.add(DeviceKind::kPcieSwitch, node_, -1, facts(element, bus_id));
    } else {
      bare_devices_ += pci_class.empty();
      return;  // a bridge to nothing, or a device that moves no data for us
    }
    join_pcie(element, device, parent);
    read_children(element, device);
  }

  // Displays (0x03), and processing accelerators (0x12), as AMD's are.
  static bool is_gpu_class(std::string_view pci_class) {
    return pci_class.substr(0, 4) == "0x03" || pci_class.substr(0, 4) == "0x12";
  }
  static bool is_amd(const XmlElement& pci) { return lower(text_of(pci, "vendor")) == "0x1002"; }

  static Device facts(const XmlElement& element, const std::string& bus_id) {
    Device device;
    device.bus_id = bus_id;
    const std::string vendor = text_of(element, "vendor");
    if (!vendor.empty()) device.model = "PCI " + vendor + ":" + text_of(element, "device");
    return device;
  }

  void join_pcie(const XmlElement& element, int device, int parent) {
    constexpr double kMaxGigatransfers = 1000;
    constexpr int kMaxLanes = 32;
    const double speed = leading_number(element, "link_speed", kMaxGigatransfers);
    const int width = integer(element, "link_width", 0, 0, kMaxLanes);
    const bool known = speed > 0 && width > 0;
    const double used_speed = speed > 0 ? speed : kAssumedPcieGigatransfers;
    const int used_width = width > 0 ? width : kAssumedPcieLanes;
    assumed_pcie_links_ += !known;
    builder_.join(device, parent, LinkKind::kPcie, used_width, pcie_gbps(used_speed, used_width),
                  known ? "link_speed x link_width" : join("assumed: ", used_width, " lanes at ", used_speed, " GT/s"));
  }

  int add_gpu(const XmlElement& element, const XmlElement* gpu, const std::string& bus_id) {
    constexpr int kMaxNumber = 1 << 20;
    const int number = gpu ? integer(*gpu, "dev", -1, -1, kMaxNumber) : -1;
    const int rank = gpu ? integer(*gpu, "rank", -1, -1, kMaxNumber) : -1;
    const std::string gcn = gpu ? text_of(*gpu, "gcn") : "";
    const bool amd = is_amd(element) || !gcn.empty();  // their "sm" is something else
    int sm = gpu && !amd ? integer(*gpu, "sm", 0, 0, 10000) : 0;
    Device device = facts(element, bus_id);
    const auto add_fact = [&](const std::string& fact) { device.model += (device.model.empty() ? "" : ", ") + fact; };
    if (sm > 0) add_fact(join("compute capability ", sm / 10, ".", sm % 10));
    if (!gcn.empty()) add_fact("AMD " + std::string(gcn.substr(0, 3) == "gfx" ? "" : "gfx") + gcn);
    if (sm == 0 && !amd && gpu_model_) {
      sm = gpu_model_->architecture;
      add_fact("NVIDIA " + std::string(gpu_model_->name));
      used_statement_ = true;
    }
    const int index = builder_.add(DeviceKind::kGpu, node_, number, std::move(device));
    gpu_of_bus_id_[{node_, bus_id}] = index;
    gpus_.push_back({index, gpu, sm, amd, gcn, bus_id, cpu_, node_, number, rank});
    return index;
  }

  // If each rank sees only one GPU, all call it 0. Then the ranks tell the order.
  void number_gpus() {
    std::map<int, std::set<int>> numbers, ranks;  // of each node
    std::map<int, size_t> count;
    for (const Gpu& gpu : gpus_) {
      numbers[gpu.node].insert(gpu.number);
      if (gpu.rank >= 0) ranks[gpu.node].insert(gpu.rank);
      ++count[gpu.node];
    }
    for (const Gpu& gpu : gpus_) {
      const std::set<int>& known = ranks[gpu.node];
      if (numbers[gpu.node].size() == count[gpu.node] || known.size() < count[gpu.node]) continue;
      builder_.set_number(gpu.device, static_cast<int>(std::distance(known.begin(), known.find(gpu.rank))));
    }
  }

  // Returns the names and the summed bandwidth of an adapter's ports. They are one device, since they share its PCIe
  // link.
  std::pair<std::string, double> ports_of(const XmlElement* nic) {
    constexpr double kMaxMegabits = 1e9;
    constexpr double kMostOfAnyNic = 1e7;  // some libraries write kbit/s
    std::pair<std::string, double> ports;
    if (!nic) return ports;
    for (const XmlElement& net : nic->children) {
      if (net.name != "net") continue;
      const std::string name = text_of(net, "name");
      if (!nets_.counts(node_, name)) continue;
      if (!name.empty()) ports.first += (ports.first.empty() ? "" : " ") + name;
      const double megabits = leading_number(net, "speed", kMaxMegabits);
      if (megabits > kMostOfAnyNic) {
        builder_.leave_out("speeds that no NIC has", join(name, ": ", megabits / 1e6, " Tbit/s"));
      } else {
        ports.second += megabits / 8000;
      }
    }
    return ports;
  }

  int add_nic(const XmlElement& element, const XmlElement* nic, const std::string& bus_id) {
    const auto [names, gbps] = ports_of(nic);
    Device device = facts(element, bus_id);
    if (!names.empty()) device.model = names + (device.model.empty() ? "" : ", " + device.model);
    device.port_gbps = gbps;
    return builder_.add(DeviceKind::kNic, node_, -1, std::move(device));
  }

  // Reads a NIC without a place on the bus. Files list it below each CPU, so only its first mention counts.
  void read_placeless_nic(const XmlElement& nic, int cpu) {
    const auto [names, gbps] = ports_of(&nic);
    if (names.empty() || !placeless_.insert({node_, names}).second) return;
    Device device;
    device.model = names;
    device.port_gbps = gbps;
    const int index = builder_.add(DeviceKind::kNic, node_, -1, std::move(device));
    builder_.join(index, cpu, LinkKind::kPcie, 1, gbps > 0 ? gbps : pcie_gbps(kAssumedPcieGigatransfers, 1),
                  "assumed: a NIC without a place on the bus is as fast as its port");
  }

  // --- links of GPUs ---

  void read_gpu_links() {
    for (const Gpu& gpu : gpus_) {
      if (!gpu.element) continue;
      for (const XmlElement& child : gpu.element->children) {
        if (child.name == "nvlink") read_gpu_link(gpu, child, LinkKind::kNvlink);
        if (child.name == "xgmi") read_gpu_link(gpu, child, LinkKind::kXgmi);
        if (child.name == "c2c") read_c2c(gpu, child);
      }
    }
  }

  // Reads an <nvlink> of NCCL's files or an <xgmi> of RCCL's.
  void read_gpu_link(const Gpu& gpu, const XmlElement& element, LinkKind kind) {
    const int lanes = integer(element, "count", 1, 1, 1024);
    const std::string target = lower(text_of(element, "target"));
    const std::string target_class = lower(text_of(element, "tclass"));
    const bool nvlink = kind == LinkKind::kNvlink;
    const double lane_gbps = nvlink ? nvlink_lane_gbps(gpu.sm) : xgmi_link_gbps(gpu.gcn);
    const bool known = nvlink ? gpu.sm > 0 : !gpu.gcn.empty();
    const std::string source = join("count x ", lane_gbps, " (",
                                    !known   ? "assumed"
                                    : nvlink ? "from sm"
                                             : "from gcn",
                                    ")");
    const std::string links = nvlink ? "NVLinks" : "xGMI links";
    const auto peer = gpu_of_bus_id_.find({gpu.node, target});
    // A switch that a virtual machine or container hides has an address of ones, and no class or that of a bridge.
    const bool hidden = target.empty() || target.find_first_not_of("f:.0") == std::string::npos;
    if (peer != gpu_of_bus_id_.end() && peer->second == gpu.device) {
      // Some virtual machines write this in place of a link that they hide.
      builder_.leave_out(links + " of a GPU to itself", target);
      return;
    }
    assumed_lanes_ += nvlink && !known;
    if (peer != gpu_of_bus_id_.end()) {
      builder_.add_gpu_link_side(kind, gpu.device, peer->second, lanes, lane_gbps, source);
    } else if (is_gpu_class(target_class)) {
      // NCCL writes a file of the GPUs that are in the job, together with the links that lead out of it.
      builder_.leave_out(links + " to GPUs that are not in the file", gpu.bus_id + " to " + target);
    } else if (!nvlink) {
      builder_.leave_out(links + " that lead to no GPU", gpu.bus_id + " to " + target);
    } else if (target_class == "0x068001") {  // the NVLink bridge of a POWER CPU
      builder_.add_nvlink(gpu.device, gpu.cpu, lanes, lane_gbps, source);
    } else if (target_class.substr(0, 6) == "0x0680" || (target_class.empty() && hidden)) {
      // NCCL writes several hosts into one file only if NVLink joins them, through switches that none of them shows.
      const bool outside = hidden && hosts_.size() > 1;
      builder_.add_nvswitch_lanes(gpu.device, target, lanes, lane_gbps, source, outside ? "of all hosts" : "");
    } else {
      fail_expected(
          element,
          "the target of an nvlink to be the busid of a <gpu> in this file (add that GPU, or remove this nvlink)",
          join("\"", target, "\" of class \"", target_class, "\""));
    }
  }

  // Reads an NVLink-C2C between a GPU and the CPU in its package: bw in 10^6 bytes/s of each of `count` links.
  void read_c2c(const Gpu& gpu, const XmlElement& element) {
    const double megabytes = leading_number(element, "bw", 1e9);
    const int lanes = integer(element, "count", 1, 1, 1024);
    if (megabytes > 0) builder_.add_nvlink(gpu.device, gpu.cpu, lanes, megabytes / 1000, "c2c bw x count");
  }

  // --- notes that users have to know before they believe the figures ---

  void add_notes() {
    constexpr const char* kAdvice = "use the file that NCCL_TOPO_DUMP_FILE writes on the machine itself";
    const auto bare_gpus =
        std::count_if(gpus_.begin(), gpus_.end(), [](const Gpu& gpu) { return gpu.element == nullptr; });
    if (bare_gpus > 0) {
      builder_.warn(join("the file says nothing of NVLink: it lists ", counted(bare_gpus, "GPU"),
                         " without <gpu>, as vendors' templates do; ", kAdvice));
    }
    if (std::any_of(gpus_.begin(), gpus_.end(), [](const Gpu& gpu) { return gpu.amd; })) {
      builder_.warn("for plans only: communicators run on NVIDIA's GPUs and on CPUs");
    }
    if (bare_devices_ > 0) {
      builder_.warn(join("the file lists ", counted(bare_devices_, "device"),
                         " by bus id alone, so nothing says which are GPUs or NICs; ", kAdvice));
    }
    if (assumed_lanes_ > 0) {
      builder_.warn(join("assumed: ", nvlink_lane_gbps(0),
                         " GB/s for each NVLink lane, since the file does not say which ",
                         "GPUs these are; state their model (--gpu-model) to have the right figure"));
    }
    if (assumed_pcie_links_ > 0) {
      builder_.warn(join("assumed: the speed of ", counted(assumed_pcie_links_, "PCIe link"),
                         ", which the file does not state in full"));
    }
  }

  const std::string& file_;
  const GpuModel* const gpu_model_;
  MachineBuilder builder_;
  std::map<std::string, int> hosts_;               // host_hash -> node
  std::map<std::pair<int, int>, int> cpus_;        // node, NUMA node -> device
  std::set<std::pair<int, std::string>> bus_ids_;  // node, busid
  std::map<std::pair<int, std::string>, int> gpu_of_bus_id_;
  std::set<std::pair<int, std::string>> placeless_;  // node, names
  std::vector<Gpu> gpus_;
  internal::NcclNets nets_;
  int bare_devices_ = 0, assumed_lanes_ = 0, assumed_pcie_links_ = 0;
  bool used_statement_ = false;
  int node_ = 0;
  int cpu_ = -1;
};

}  // namespace

Topology parse_nccl_xml(std::string_view text, const std::string& file, const GpuModel* gpu_model) {
  const XmlElement root = parse_xml(text, file);
  return NcclXmlReader(file, gpu_model).read(root);
}

}  // namespace plait
