#include "topology/groups.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>

#include "base/error.hpp"

namespace plait {
namespace {

constexpr size_t kExactLimit = 16;

// NVLink bandwidth between the GPUs of one node, in 10^3 bytes/s: integers, so that sums compare exactly. 0: not
// joined.
class NvlinkMatrix {
 public:
  NvlinkMatrix(const Topology& topology, const std::vector<int>& gpus) : size_(gpus.size()), cells_(size_ * size_) {
    std::map<int, size_t> place;
    for (size_t i = 0; i < gpus.size(); ++i) place[gpus[i]] = i;
    std::map<int, std::vector<std::pair<size_t, int64_t>>> ports;  // of each NVSwitch: GPU and bandwidth
    for (const Link& link : topology.links) {
      if (link.kind != LinkKind::kNvlink) continue;
      const int64_t bandwidth = std::max<int64_t>(1, std::llround(std::min(link.gbps, 1e9) * 1e6));
      const auto a = place.find(link.a), b = place.find(link.b);
      if (a != place.end() && b != place.end()) widen(a->second, b->second, bandwidth);
      const bool a_switch = topology.devices[static_cast<size_t>(link.a)].kind == DeviceKind::kNvSwitch;
      const bool b_switch = topology.devices[static_cast<size_t>(link.b)].kind == DeviceKind::kNvSwitch;
      if (a_switch && b != place.end()) ports[link.a].push_back({b->second, bandwidth});
      if (b_switch && a != place.end()) ports[link.b].push_back({a->second, bandwidth});
    }
    for (const auto& [nvswitch, gpus_on_it] : ports) {
      for (const auto& [i, first] : gpus_on_it) {
        for (const auto& [j, second] : gpus_on_it) {
          if (i < j) widen(i, j, std::min(first, second));
        }
      }
    }
  }

  size_t size() const { return size_; }
  int64_t at(size_t i, size_t j) const { return cells_[i * size_ + j]; }

 private:
  void widen(size_t i, size_t j, int64_t bandwidth) {
    const int64_t wider = std::max(at(i, j), bandwidth);
    cells_[i * size_ + j] = cells_[j * size_ + i] = wider;
  }

  size_t size_;
  std::vector<int64_t> cells_;
};

using Members = std::vector<size_t>;  // rows of the matrix, ascending

std::vector<Members> components_of(const NvlinkMatrix& matrix) {
  std::vector<Members> components;
  std::vector<bool> seen(matrix.size());
  for (size_t start = 0; start < matrix.size(); ++start) {
    if (seen[start]) continue;
    seen[start] = true;
    Members members = {start};
    for (size_t k = 0; k < members.size(); ++k) {
      for (size_t j = 0; j < matrix.size(); ++j) {
        if (seen[j] || matrix.at(members[k], j) == 0) continue;
        seen[j] = true;
        members.push_back(j);
      }
    }
    std::sort(members.begin(), members.end());
    components.push_back(std::move(members));
  }
  return components;
}

bool is_clique(const NvlinkMatrix& matrix, const Members& members) {
  for (size_t a = 0; a < members.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      if (matrix.at(members[a], members[b]) == 0) return false;
    }
  }
  return true;
}

// The best division of each set of members, by sets of bits: the group of a set's lowest member is tried in all ways,
// the rest is a smaller set that is solved already. The three rules all add up over groups in order of their lowest
// members, so the best of the parts is the best of the whole.
class ExactDivision {
 public:
  ExactDivision(const NvlinkMatrix& matrix, const Members& members) : matrix_(matrix), members_(members) {
    weigh_cliques();
    best_.resize(weight_.size());
    for (uint32_t set = 1; set < best_.size(); ++set) solve(set);
  }

  std::vector<Members> result() const {
    std::vector<Members> groups;
    for (uint32_t left = static_cast<uint32_t>(best_.size()) - 1; left != 0; left &= ~best_[left].first_group) {
      Members group;
      for (size_t i = 0; i < members_.size(); ++i) {
        if (best_[left].first_group >> i & 1) group.push_back(members_[i]);
      }
      groups.push_back(std::move(group));
    }
    return groups;
  }

 private:
  struct Best {
    int groups = 0;
    int64_t bandwidth = 0;
    uint32_t first_group = 0;
  };
  static constexpr int64_t kNoClique = -1;

  void weigh_cliques() {
    weight_.assign(size_t{1} << members_.size(), 0);
    for (uint32_t set = 1; set < weight_.size(); ++set) {
      const auto lowest = static_cast<size_t>(std::countr_zero(set));
      const uint32_t rest = set & (set - 1);
      weight_[set] = weight_[rest];
      for (uint32_t left = rest; left != 0 && weight_[set] != kNoClique; left &= left - 1) {
        const int64_t pair = matrix_.at(members_[lowest], members_[static_cast<size_t>(std::countr_zero(left))]);
        weight_[set] = pair == 0 ? kNoClique : weight_[set] + pair;
      }
    }
  }

  // Whether group `a` puts members into earlier groups than `b`: at the lowest member where they differ, a has it.
  static bool earlier(uint32_t a, uint32_t b) { return (a & ((a ^ b) & -(a ^ b))) != 0; }

  void solve(uint32_t set) {
    const uint32_t lowest = set & -set;
    const uint32_t others = set ^ lowest;
    Best best;
    for (uint32_t with = others;; with = (with - 1) & others) {
      const uint32_t group = lowest | with;
      if (weight_[group] != kNoClique) {
        const Best& rest = best_[set ^ group];
        const Best candidate = {rest.groups + 1, rest.bandwidth + weight_[group], group};
        const bool better = best.groups == 0 || candidate.groups < best.groups ||
                            (candidate.groups == best.groups &&
                             (candidate.bandwidth > best.bandwidth ||
                              (candidate.bandwidth == best.bandwidth && earlier(group, best.first_group))));
        if (better) best = candidate;
      }
      if (with == 0) break;
    }
    best_[set] = best;
  }

  const NvlinkMatrix& matrix_;
  const Members& members_;
  std::vector<int64_t> weight_;  // bandwidth inside each set of members, or kNoClique
  std::vector<Best> best_;
};

std::vector<Members> divide_greedily(const NvlinkMatrix& matrix, Members left) {
  std::vector<Members> groups;
  while (!left.empty()) {
    Members group = {left.front()};
    left.erase(left.begin());
    for (;;) {
      const auto bandwidth_to_group = [&](size_t candidate) {
        int64_t sum = 0;
        for (const size_t member : group) {
          if (matrix.at(candidate, member) == 0) return int64_t{0};
          sum += matrix.at(candidate, member);
        }
        return sum;
      };
      const auto widest = std::max_element(
          left.begin(), left.end(), [&](size_t a, size_t b) { return bandwidth_to_group(a) < bandwidth_to_group(b); });
      if (widest == left.end() || bandwidth_to_group(*widest) == 0) break;
      group.push_back(*widest);
      left.erase(widest);
    }
    std::sort(group.begin(), group.end());
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<Members> divide(const NvlinkMatrix& matrix, const Members& component) {
  if (is_clique(matrix, component)) return {component};
  if (component.size() <= kExactLimit) return ExactDivision(matrix, component).result();
  return divide_greedily(matrix, component);
}

// The lowest CPU that NVLink joins to every one of these GPUs, or -1.
int common_cpu(const Topology& topology, const std::vector<int>& gpus) {
  std::map<int, size_t> joined;  // CPU -> how many of the GPUs
  for (const Link& link : topology.links) {
    if (link.kind != LinkKind::kNvlink) continue;
    for (const auto& [gpu, cpu] : {std::pair(link.a, link.b), std::pair(link.b, link.a)}) {
      if (topology.devices[static_cast<size_t>(cpu)].kind != DeviceKind::kCpu) continue;
      if (std::binary_search(gpus.begin(), gpus.end(), gpu)) joined[cpu] += 1;
    }
  }
  for (const auto& [cpu, count] : joined) {
    if (count == gpus.size()) return cpu;
  }
  return -1;
}

void check_gpus(const Topology& topology, const std::vector<int>& sorted) {
  for (size_t i = 0; i < sorted.size(); ++i) {
    const int gpu = sorted[i];
    if (gpu < 0 || static_cast<size_t>(gpu) >= topology.devices.size() ||
        topology.devices[static_cast<size_t>(gpu)].kind != DeviceKind::kGpu) {
      fail(ErrorCode::kInvalidArgument, "find_groups: device ", gpu, " of topology ", topology.name, " is not a GPU");
    }
    if (i > 0 && sorted[i - 1] == gpu) {
      fail(ErrorCode::kInvalidArgument, "find_groups: ", topology.devices[static_cast<size_t>(gpu)].name,
           " is listed twice");
    }
  }
}

}  // namespace

std::vector<Group> find_groups(const Topology& topology, std::vector<int> gpus, GroupRule rule) {
  std::sort(gpus.begin(), gpus.end());
  check_gpus(topology, gpus);
  std::map<int, std::vector<int>> gpus_of_node;
  for (const int gpu : gpus) gpus_of_node[topology.devices[static_cast<size_t>(gpu)].node].push_back(gpu);
  std::vector<Group> groups;
  for (const auto& [node, on_node] : gpus_of_node) {
    const NvlinkMatrix matrix(topology, on_node);
    const size_t first = groups.size();
    for (const Members& component : components_of(matrix)) {
      for (const Members& members : divide(matrix, component)) {
        Group group;
        for (const size_t member : members) group.gpus.push_back(on_node[member]);
        if (rule == GroupRule::kNvGroup) group.cpu = common_cpu(topology, group.gpus);
        groups.push_back(std::move(group));
      }
    }
    std::sort(groups.begin() + static_cast<ptrdiff_t>(first), groups.end(),
              [](const Group& a, const Group& b) { return a.gpus.front() < b.gpus.front(); });
  }
  return groups;
}

std::vector<Group> find_groups(const Topology& topology, GroupRule rule) {
  return find_groups(topology, devices_of(topology, DeviceKind::kGpu), rule);
}

std::string format_group(const Topology& topology, const Group& group, int number) {
  std::string text = join("group ", number, ":");
  for (const int gpu : group.gpus) text += " " + topology.devices[static_cast<size_t>(gpu)].name;
  if (group.cpu >= 0) text += " " + topology.devices[static_cast<size_t>(group.cpu)].name;
  return text;
}

}  // namespace plait
