// Reads machines from text, in the forms that people have. All readers fail with kInvalidInput, `FILE:LINE: expected X,
// found Y`, and return a topology that validate() accepts. `file` is used in messages. Without its folders and ending,
// it is also the name of a machine whose text has none.
#pragma once

#include <string>
#include <string_view>

#include "topology/bandwidths.hpp"
#include "topology/gpu_models.hpp"
#include "topology/topology.hpp"

namespace plait {

// Reads Plait's own form, which machines/*.json and docs/topology/machine_files.md show.
Topology parse_machine_json(std::string_view text, const std::string& file);
// Writes the same form: parse_machine_json(to_json(t), …) == t for every valid t.
std::string to_json(const Topology& topology);

// Reads NCCL's topology file, as NCCL_TOPO_DUMP_FILE writes and NCCL_TOPO_FILE reads it, of all versions since 2.5, and
// RCCL's files with xGMI links. Unknown elements and attributes are ignored. All NVSwitches of a node become one
// device, since NVLink spreads over them. CPUs with different host_hash become different nodes, joined as in
// replicate(). `gpu_model` is the model of GPUs whose compute capability the file does not state.
Topology parse_nccl_xml(std::string_view text, const std::string& file, const GpuModel* gpu_model = nullptr);

// Assumptions about what the matrix of `nvidia-smi topo -m` does not tell.
struct NvidiaSmiAssumptions {
  double nvlink_lane_gbps = kAssumedNvlinkLaneGbps;
  double pcie_gbps = ::plait::pcie_gbps(kAssumedPcieGigatransfers, kAssumedPcieLanes);
  const GpuModel* gpu_model = nullptr;  // tells both, if it is known
};
// Reads the text of `nvidia-smi topo -m`, old or new, with or without NICs, affinities and legend, as printed or as
// pasted, also inside a long report. Lines of `nvidia-smi -L` there tell the models. GPUs that show more lanes than a
// GPU has, or more than bridges join, are assumed to be on an NVSwitch.
Topology parse_nvidia_smi(std::string_view text, const std::string& file, const NvidiaSmiAssumptions& assumptions = {});

// Reads any of the above, recognised by its content. `gpu_model` is the model of the GPUs whose model the text does not
// state. Refused with kInvalidArgument if there are no such GPUs.
Topology parse_topology(std::string_view text, const std::string& file, const GpuModel* gpu_model = nullptr);
// Reads a file of at most 64 MiB in any of these forms. "-" is standard input.
Topology read_topology(const std::string& path, const GpuModel* gpu_model = nullptr);

namespace internal {
// "machines/dgx1.v2.json" -> "dgx1.v2": the name of a machine whose text has none.
std::string stem(const std::string& path);
// Throws kInvalidArgument: the user stated a model that the file states already.
[[noreturn]] void fail_model_is_known(const std::string& file);
}  // namespace internal

}  // namespace plait
