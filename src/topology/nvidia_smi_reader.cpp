// Turns the matrix of `nvidia-smi topo -m` into a machine.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "topology/builder.hpp"
#include "topology/gpu_models.hpp"
#include "topology/nvidia_smi_matrix.hpp"
#include "topology/readers.hpp"

namespace plait {
namespace {

using internal::MachineBuilder;
using internal::NvidiaSmiMatrix;
using internal::Relation;

// Sets of devices that belong together.
class Sets {
 public:
  explicit Sets(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), size_t{0}); }
  size_t root(size_t i) const {
    while (parent_[i] != i) i = parent_[i];
    return i;
  }
  // The smallest member is always the root.
  void join(size_t a, size_t b) {
    a = root(a);
    b = root(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }
  size_t size() const { return parent_.size(); }

 private:
  std::vector<size_t> parent_;
};

// Whether the matrix sets two devices apart. A GPU whose memory is a NUMA node by itself is SYS away from every NIC,
// even from those of its own CPU.
bool is_apart(const NvidiaSmiMatrix& matrix, size_t i, size_t j) {
  return matrix.at(i, j).relation == Relation::kSystem && matrix.own_numa_node[i] == matrix.own_numa_node[j];
}

// Pairs of sets (by their roots) of which the matrix sets apart some member of one and some member of the other.
std::set<std::pair<size_t, size_t>> sets_apart(const NvidiaSmiMatrix& matrix, const Sets& sets) {
  std::set<std::pair<size_t, size_t>> apart;
  for (size_t i = 0; i < matrix.size(); ++i) {
    for (size_t j = 0; j < matrix.size(); ++j) {
      if (is_apart(matrix, i, j)) apart.insert({sets.root(i), sets.root(j)});
    }
  }
  return apart;
}

// The known affinities of the members of a set.
std::set<std::string> affinities_of(const NvidiaSmiMatrix& matrix, const Sets& sets, size_t root) {
  std::set<std::string> known;
  for (size_t i = 0; i < matrix.size(); ++i) {
    if (sets.root(i) == root && !matrix.affinity[i].empty()) known.insert(matrix.affinity[i]);
  }
  return known;
}

// Joins every two sets whose affinities `fits` accepts and that nothing sets apart.
template <class Fits>
void unite(const NvidiaSmiMatrix& matrix, Sets& sets, Fits fits) {
  auto apart = sets_apart(matrix, sets);
  for (size_t i = 0; i < matrix.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const size_t a = sets.root(i), b = sets.root(j);
      if (a == b || apart.count({a, b})) continue;
      if (!fits(affinities_of(matrix, sets, a), affinities_of(matrix, sets, b))) continue;
      sets.join(a, b);
      apart = sets_apart(matrix, sets);
    }
  }
}

// Finds the devices on each CPU. NV# hides where a GPU sits, so the affinities help. Without affinities, devices that
// nothing sets apart are assumed to be on one CPU, in order.
Sets sockets_of(const NvidiaSmiMatrix& matrix) {
  Sets sets(matrix.size());
  for (size_t i = 0; i < matrix.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const Relation relation = matrix.at(i, j).relation;
      const bool hides = relation == Relation::kNvlink || relation == Relation::kUnknown;
      if (!hides && relation != Relation::kSystem) sets.join(i, j);
    }
  }
  using Affinities = std::set<std::string>;
  unite(matrix, sets, [](const Affinities& a, const Affinities& b) {
    return std::any_of(a.begin(), a.end(), [&](const std::string& known) { return b.count(known) > 0; });
  });
  unite(matrix, sets, [](const Affinities& a, const Affinities& b) { return a.empty() || b.empty(); });
  return sets;
}

class Builder {
 public:
  Builder(const NvidiaSmiMatrix& matrix, const std::string& file, const NvidiaSmiAssumptions& assumptions)
      : matrix_(matrix),
        file_(file),
        assumptions_(assumptions),
        builder_(internal::stem(file), "text of nvidia-smi topo -m, " + file),
        device_(matrix.size(), -1),
        lane_gbps_(matrix.size(), assumptions.nvlink_lane_gbps),
        pcie_gbps_(assumptions.pcie_gbps) {}

  Topology build() {
    read_models();
    add_notes();
    add_endpoints();
    add_pcie();
    add_nvlinks();
    return builder_.finish();
  }

 private:
  // Uses what the models of the GPUs tell. PCIe is as fast as the best of them.
  void read_models() {
    models_.resize(matrix_.size());
    int best = 0;
    for (size_t i = 0; i < matrix_.size(); ++i) {
      if (!matrix_.gpu(i)) continue;
      const auto said = matrix_.models.find(matrix_.gpu_number(i));
      const GpuModel* known = nullptr;
      if (said != matrix_.models.end()) {
        models_[i] = said->second;
        known = find_gpu_model(said->second);
      } else if (assumptions_.gpu_model) {
        known = assumptions_.gpu_model;
        models_[i] = "NVIDIA " + std::string(known->name);
        used_statement_ = true;
      }
      all_known_ &= known != nullptr;
      if (!known) continue;
      lane_gbps_[i] = nvlink_lane_gbps(known->architecture);
      best = std::max(best, known->architecture);
    }
    if (best > 0) pcie_gbps_ = pcie_gbps(pcie_gigatransfers(best), kAssumedPcieLanes);
    if (assumptions_.gpu_model && !used_statement_) internal::fail_model_is_known(file_);
  }

  static double one_digit(double gbps) { return std::round(gbps * 10) / 10; }

  void add_notes() {
    if (all_known_) {
      builder_.note(join("assumed: ", one_digit(pcie_gbps_), " GB/s for each PCIe link, as these GPUs can do"));
    } else {
      builder_.warn(
          join("assumed: ", assumptions_.nvlink_lane_gbps, " GB/s for each NVLink lane and ", one_digit(pcie_gbps_),
               " GB/s for each PCIe link, since the matrix does not say which GPUs these are; state their model "
               "(--gpu-model) to have the right figures"));
    }
    if (const auto& missing = matrix_.without_row; !missing.empty()) {
      const std::string rows = missing.size() == 1 ? "row of " + missing[0] + " is"
                                                   : join("rows of ", missing.front(), " to ", missing.back(), " are");
      builder_.warn("the " + rows + " missing, so nothing says what joins these NICs to each other");
    }
    if (std::find(matrix_.own_numa_node.begin(), matrix_.own_numa_node.end(), true) != matrix_.own_numa_node.end()) {
      builder_.note("assumed: which CPU each NIC is on, which the matrix does not say for GPUs on Grace");
    }
  }

  void add_endpoints() {
    for (size_t i = 0; i < matrix_.size(); ++i) {
      Device device;
      if (matrix_.gpu(i)) {
        device.model = models_[i];
        device.fabric = matrix_.fabric;
        device_[i] = builder_.add(DeviceKind::kGpu, 0, matrix_.gpu_number(i), std::move(device));
      } else {
        const auto known = matrix_.legend.find(matrix_.labels[i]);
        device.model = known == matrix_.legend.end() ? matrix_.labels[i] : known->second;
        device_[i] = builder_.add(DeviceKind::kNic, 0, -1, std::move(device));
      }
    }
  }

  void join_pcie(int below, int above) {
    builder_.join(below, above, LinkKind::kPcie, kAssumedPcieLanes, pcie_gbps_, "assumed");
  }

  // Adds switches from the ends up: one for each set of PIX, one above for each set of PXB, then the CPU.
  void add_pcie() {
    const Sets sockets = sockets_of(matrix_);
    std::vector<int> top = device_;  // the highest device so far above each endpoint
    add_switches(top, {Relation::kOneSwitch});
    add_switches(top, {Relation::kOneSwitch, Relation::kSwitches});
    std::map<size_t, int> cpus;
    std::set<int> joined;
    for (size_t i = 0; i < matrix_.size(); ++i) {
      const auto [place, is_new] = cpus.emplace(sockets.root(i), -1);
      if (is_new) place->second = builder_.add(DeviceKind::kCpu, 0, static_cast<int>(cpus.size()) - 1, Device{});
      if (joined.insert(top[i]).second) join_pcie(top[i], place->second);
    }
  }

  void add_switches(std::vector<int>& top, const std::set<Relation>& relations) {
    Sets sets(matrix_.size());
    for (size_t i = 0; i < matrix_.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (relations.count(matrix_.at(i, j).relation)) sets.join(i, j);
      }
    }
    for (size_t root = 0; root < matrix_.size(); ++root) {
      std::set<int> below;
      for (size_t i = 0; i < matrix_.size(); ++i) {
        if (sets.root(i) == root) below.insert(top[i]);
      }
      if (below.size() < 2) continue;
      const int above = builder_.add(DeviceKind::kPcieSwitch, 0, -1, Device{});
      for (const int device : below) join_pcie(device, above);
      for (size_t i = 0; i < matrix_.size(); ++i) {
        if (sets.root(i) == root) top[i] = above;
      }
    }
  }

  // GPUs that NVLink joins into one net are on a switch if some GPU would need more lanes than any GPU has, or some
  // pair more than bridges give. Every cell then shows the lanes of a GPU, not those of a pair.
  void add_nvlinks() {
    Sets nets(matrix_.size());
    std::vector<int> sum(matrix_.size()), most(matrix_.size());
    for_each_nvlink([&](size_t i, size_t j, int lanes) {
      nets.join(i, j);
      sum[i] += lanes;
      most[i] = std::max(most[i], lanes);
    });
    std::vector<bool> switched(matrix_.size());
    for (size_t i = 0; i < matrix_.size(); ++i) {
      if (sum[i] > kMostNvlinkLanes || most[i] > kMostBridgeLanes) switched[nets.root(i)] = true;
    }
    for (size_t i = 0; i < matrix_.size(); ++i) {
      if (most[i] == 0 || !switched[nets.root(i)]) continue;
      builder_.add_nvswitch_lanes(
          device_[i], "", most[i], lane_gbps_[i],
          "NV# of the matrix; a switch, since point to point would need more lanes than GPUs have", matrix_.fabric);
    }
    for_each_nvlink([&](size_t i, size_t j, int lanes) {
      if (switched[nets.root(i)]) return;
      builder_.add_gpu_link_side(LinkKind::kNvlink, device_[i], device_[j], lanes, lane_gbps_[i], "NV# of the matrix");
    });
  }

  template <class Visit>
  void for_each_nvlink(Visit visit) const {
    for (size_t i = 0; i < matrix_.size(); ++i) {
      for (size_t j = 0; j < matrix_.size(); ++j) {
        if (!matrix_.gpu(i) || !matrix_.gpu(j) || matrix_.at(i, j).relation != Relation::kNvlink) continue;
        visit(i, j, matrix_.at(i, j).lanes);
      }
    }
  }

  const NvidiaSmiMatrix& matrix_;
  const std::string& file_;
  const NvidiaSmiAssumptions& assumptions_;
  MachineBuilder builder_;
  std::vector<int> device_;          // of each label, as in the next two
  std::vector<std::string> models_;  // empty if unknown
  std::vector<double> lane_gbps_;
  double pcie_gbps_;
  bool all_known_ = true;
  bool used_statement_ = false;
};

}  // namespace

Topology parse_nvidia_smi(std::string_view text, const std::string& file, const NvidiaSmiAssumptions& assumptions) {
  const NvidiaSmiMatrix matrix = internal::parse_nvidia_smi_matrix(text, file);
  return Builder(matrix, file, assumptions).build();
}

}  // namespace plait
