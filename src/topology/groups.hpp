// Groups of GPUs that NVLink or xGMI joins pairwise. One rule covers NV-Group's NVGroups (NVG-34) and Blink's cliques
// (BLK-04).
#pragma once

#include <string>
#include <vector>

#include "topology/topology.hpp"

namespace plait {

enum class GroupRule : uint8_t {
  kNvGroup,  // with the CPU that NVLink joins to every GPU of the group, if there is one (NVG-34)
  kGpuOnly,  // GPUs only (BLK-04)
};

struct Group {
  std::vector<int> gpus;  // indices of devices, ascending
  int cpu = -1;           // the CPU in the group, or -1
  bool operator==(const Group&) const = default;
};

// Divides GPUs of any machine into groups. Two GPUs may share a group if one NVLink or xGMI link (of any width) joins
// them or both are on one NVSwitch. This must hold for all pairs of a group. A group lies inside a node, unless an
// NVSwitch of no node joins it.
//
// Among all such divisions it takes the one that has
//   1. the fewest groups,
//   2. then the most NVLink bandwidth inside groups, summed over pairs,
//   3. then the lowest numbers: going through the GPUs in order, each in the earliest group.
// This is exact for sets of up to 16 GPUs that NVLink connects, directly or not. Larger sets that are not cliques are
// divided greedily. A group starts with the lowest GPU that is left, and takes one by one the GPU with the most
// bandwidth to the group.
//
// Groups are ordered by node and then by lowest GPU. `gpus` are indices of devices, in any order. Fails with
// kInvalidArgument if one is not a GPU or is listed twice.
std::vector<Group> find_groups(const Topology& topology, std::vector<int> gpus, GroupRule rule);
// The same for all GPUs.
std::vector<Group> find_groups(const Topology& topology, GroupRule rule);

// "group 0: gpu0 gpu1 gpu2 cpu0"
std::string format_group(const Topology& topology, const Group& group, int number);

}  // namespace plait
