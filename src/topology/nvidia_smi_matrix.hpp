// The matrix that `nvidia-smi topo -m` prints. A cell names the nearest thing that two devices share. NV# is so many
// lanes of NVLink, PIX one PCIe switch, PXB several, PHB a host bridge, NODE a NUMA node, and SYS (once SOC) only the
// machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace plait::internal {

enum class Relation : uint8_t { kSelf, kNvlink, kOneSwitch, kSwitches, kHostBridge, kNumaNode, kSystem, kUnknown };

struct MatrixCell {
  Relation relation = Relation::kSelf;
  int lanes = 0;
  bool operator==(const MatrixCell&) const = default;
};

struct NvidiaSmiMatrix {
  std::vector<std::string> labels;             // "GPU0", "NIC0", "mlx5_0", in order
  std::vector<std::vector<MatrixCell>> cells;  // [row][column]
  std::vector<std::string> affinity;           // to CPUs or, if the text has them, to NUMA nodes; empty if unknown
  std::vector<bool> own_numa_node;             // a GPU whose memory is a NUMA node by itself, as on Grace
  std::vector<std::string> without_row;        // labels whose rows were cut off: the links between these are unknown
  std::map<std::string, std::string> legend;   // "NIC0" -> "mlx5_0"
  std::string fabric;                          // cluster UUID and clique of all GPUs, if the text has `nvidia-smi -q`
  std::map<int, std::string> models;           // 0 -> "NVIDIA A100-SXM4-80GB", if the text has `nvidia-smi -L` as well

  bool gpu(size_t i) const;
  int gpu_number(size_t i) const;  // of a GPU; -1 if it is too large
  const MatrixCell& at(size_t i, size_t j) const { return cells[i][j]; }
  size_t size() const { return labels.size(); }
};

// Whether there is a matrix anywhere in the text: its header, and the first row below it.
bool has_nvidia_smi_matrix(std::string_view text);
// Whether there is at least a line that could be part of a matrix.
bool has_nvidia_smi_line(std::string_view text);
// Reads the first matrix of the text, wherever it is. Fails with kInvalidInput. Rows of NICs may be missing at the end,
// because the rows of GPUs have what they say about GPUs.
NvidiaSmiMatrix parse_nvidia_smi_matrix(std::string_view text, const std::string& file);

}  // namespace plait::internal
