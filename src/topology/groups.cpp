#include "topology/groups.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <compare>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.hpp"

namespace plait {
namespace {

constexpr size_t kExactLimit = 16;

// Bandwidth of NVLink or xGMI between GPUs, in 10^3 bytes/s: integers, so that sums compare exactly. 0: no link.
class BandwidthMatrix {
 public:
  explicit BandwidthMatrix(size_t size) : size_(size), cells_(size * size) {}

  size_t size() const { return size_; }
  int64_t at(size_t i, size_t j) const { return cells_[i * size_ + j]; }
  void widen(size_t i, size_t j, int64_t bandwidth) {
    const int64_t wider = std::max(at(i, j), bandwidth);
    cells_[i * size_ + j] = cells_[j * size_ + i] = wider;
  }
  auto operator<=>(const BandwidthMatrix&) const = default;

 private:
  size_t size_;
  std::vector<int64_t> cells_;
};

using Members = std::vector<size_t>;  // rows of the matrix, ascending

bool is_clique(const BandwidthMatrix& matrix, const Members& members) {
  for (size_t a = 0; a < members.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      if (matrix.at(members[a], members[b]) == 0) return false;
    }
  }
  return true;
}

// Finds the best division of every set of members, with sets as bit masks. For the group of a set's lowest member all
// ways are tried; the rest is a smaller set, which is solved already. All three rules add up over groups in the order
// of their lowest members, so the best parts make the best whole.
class ExactDivision {
 public:
  ExactDivision(const BandwidthMatrix& matrix, const Members& members) : matrix_(matrix), members_(members) {
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

  // Whether group `a` puts members into earlier groups than `b`: `a` has the lowest member in which they differ.
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

  const BandwidthMatrix& matrix_;
  const Members& members_;
  std::vector<int64_t> weight_;  // bandwidth inside each set of members, or kNoClique
  std::vector<Best> best_;
};

std::vector<Members> divide_greedily(const BandwidthMatrix& matrix) {
  constexpr int64_t kTaken = -1;
  std::vector<Members> groups;
  std::vector<bool> grouped(matrix.size());
  for (size_t lowest = 0; lowest < matrix.size(); ++lowest) {
    if (grouped[lowest]) continue;
    Members group;
    std::vector<int64_t> to_group(matrix.size(), 0);  // of each GPU to the group, if all members are joined to it
    for (size_t i = 0; i < matrix.size(); ++i) to_group[i] = grouped[i] ? kTaken : 0;
    for (size_t next = lowest;;) {
      group.push_back(next);
      grouped[next] = true;
      to_group[next] = kTaken;
      for (size_t i = 0; i < matrix.size(); ++i) {
        if (to_group[i] == kTaken) continue;
        to_group[i] = matrix.at(next, i) == 0 ? kTaken : to_group[i] + matrix.at(next, i);
      }
      next = static_cast<size_t>(std::max_element(to_group.begin(), to_group.end()) - to_group.begin());
      if (to_group[next] == kTaken) break;
    }
    std::sort(group.begin(), group.end());
    groups.push_back(std::move(group));
  }
  return groups;
}

// GPUs that NVLink or xGMI connects, directly or not, and the links and switches that do.
struct Net {
  std::vector<int> gpus;
  struct Pair {
    size_t i, j;  // indices into gpus
    int64_t bandwidth;
  };
  std::vector<Pair> pairs;
  std::vector<std::vector<std::pair<size_t, int64_t>>>
      switches;  // of each: the GPUs on it, as indices, and their bandwidth

  BandwidthMatrix matrix() const {
    BandwidthMatrix matrix(gpus.size());
    for (const Pair& pair : pairs) matrix.widen(pair.i, pair.j, pair.bandwidth);
    for (const auto& ports : switches) {
      for (const auto& [i, first] : ports) {
        for (const auto& [j, second] : ports) {
          if (i < j) matrix.widen(i, j, std::min(first, second));
        }
      }
    }
    return matrix;
  }
};

// Splits the given GPUs into nets. Only connections among these GPUs count, not those through another GPU.
class Nets {
 public:
  Nets(const Topology& topology, const std::vector<int>& gpus)
      : topology_(topology), gpus_(gpus), parent_(gpus.size()) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
    for (size_t i = 0; i < gpus.size(); ++i) place_[gpus[i]] = i;
    for (const Link& link : topology.links) {
      if (joins_gpus(link.kind)) add(link);
    }
    for (const auto& [nvswitch, ports] : ports_) {
      for (const auto& [place, bandwidth] : ports) unite(ports.front().first, place);
    }
  }

  std::vector<Net> result() {
    std::vector<Net> nets;
    std::map<size_t, size_t> net_of_root;
    std::vector<size_t> place_in_net(gpus_.size());
    const auto net_of = [&](size_t place) -> Net& { return nets[net_of_root.at(root(place))]; };
    for (size_t place = 0; place < gpus_.size(); ++place) {
      if (net_of_root.emplace(root(place), nets.size()).second) nets.emplace_back();
      place_in_net[place] = net_of(place).gpus.size();
      net_of(place).gpus.push_back(gpus_[place]);
    }
    for (const Net::Pair& pair : pairs_) {
      net_of(pair.i).pairs.push_back({place_in_net[pair.i], place_in_net[pair.j], pair.bandwidth});
    }
    for (auto& [nvswitch, ports] : ports_) {
      Net& net = net_of(ports.front().first);
      for (auto& [place, bandwidth] : ports) place = place_in_net[place];
      net.switches.push_back(std::move(ports));
    }
    return nets;
  }

 private:
  size_t root(size_t place) {
    while (parent_[place] != place) place = parent_[place] = parent_[parent_[place]];
    return place;
  }
  void unite(size_t a, size_t b) { parent_[root(a)] = root(b); }

  void add(const Link& link) {
    const int64_t bandwidth = std::max<int64_t>(1, std::llround(std::min(link.gbps, 1e9) * 1e6));
    const auto a = place_.find(link.a), b = place_.find(link.b);
    if (a != place_.end() && b != place_.end()) {
      pairs_.push_back({a->second, b->second, bandwidth});
      unite(a->second, b->second);
    }
    const auto is_switch = [&](int device) {
      return topology_.devices[static_cast<size_t>(device)].kind == DeviceKind::kNvSwitch;
    };
    if (is_switch(link.a) && b != place_.end()) ports_[link.a].push_back({b->second, bandwidth});
    if (is_switch(link.b) && a != place_.end()) ports_[link.b].push_back({a->second, bandwidth});
  }

  const Topology& topology_;
  const std::vector<int>& gpus_;
  std::vector<size_t> parent_;  // of indices into gpus_
  std::map<int, size_t> place_;
  std::vector<Net::Pair> pairs_;
  std::map<int, std::vector<std::pair<size_t, int64_t>>> ports_;  // by NVSwitch
};

// Divides nets into groups. Clusters have many equal nets, which are divided once.
class Divider {
 public:
  const std::vector<Members>& divide(BandwidthMatrix matrix) {
    const auto known = divided_.find(matrix);
    if (known != divided_.end()) return known->second;
    std::vector<Members> groups = make(matrix);
    // A large result is rarely needed again, and is not worth keeping.
    if (matrix.size() > kExactLimit) return last_ = std::move(groups);
    return divided_.emplace(std::move(matrix), std::move(groups)).first->second;
  }

 private:
  static std::vector<Members> make(const BandwidthMatrix& matrix) {
    Members all(matrix.size());
    std::iota(all.begin(), all.end(), size_t{0});
    if (is_clique(matrix, all)) return {all};
    return matrix.size() <= kExactLimit ? ExactDivision(matrix, all).result() : divide_greedily(matrix);
  }

  std::map<BandwidthMatrix, std::vector<Members>> divided_;
  std::vector<Members> last_;
};

// The CPUs that NVLink joins to GPUs.
class JoinedCpus {
 public:
  explicit JoinedCpus(const Topology& topology) {
    for (const Link& link : topology.links) {
      if (link.kind != LinkKind::kNvlink) continue;
      for (const auto& [gpu, cpu] : {std::pair(link.a, link.b), std::pair(link.b, link.a)}) {
        if (topology.devices[static_cast<size_t>(cpu)].kind == DeviceKind::kCpu) of_gpu_[gpu].push_back(cpu);
      }
    }
  }

  // Returns the lowest CPU that is joined to every one of these GPUs, or -1.
  int common(const std::vector<int>& gpus) const {
    std::map<int, size_t> joined;  // CPU -> number of the GPUs that it is joined to
    for (const int gpu : gpus) {
      const auto cpus = of_gpu_.find(gpu);
      if (cpus == of_gpu_.end()) return -1;
      for (const int cpu : cpus->second) joined[cpu] += 1;
    }
    for (const auto& [cpu, count] : joined) {
      if (count == gpus.size()) return cpu;
    }
    return -1;
  }

 private:
  std::map<int, std::vector<int>> of_gpu_;
};

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
  const JoinedCpus cpus(topology);
  Divider divider;
  std::vector<Group> groups;
  for (const Net& net : Nets(topology, gpus).result()) {
    for (const Members& members : divider.divide(net.matrix())) {
      Group& group = groups.emplace_back();
      for (const size_t member : members) group.gpus.push_back(net.gpus[member]);
      if (rule == GroupRule::kNvGroup) group.cpu = cpus.common(group.gpus);
    }
  }
  const auto key = [&](const Group& group) {
    const int lowest = group.gpus.front();
    return std::pair(topology.devices[static_cast<size_t>(lowest)].node, lowest);
  };
  std::sort(groups.begin(), groups.end(), [&](const Group& a, const Group& b) { return key(a) < key(b); });
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
