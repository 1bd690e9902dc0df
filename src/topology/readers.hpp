// Machines from text, in the forms that people have. All fail with kInvalidInput, `FILE:LINE: expected X, found Y`, and
// give a topology that validate() accepts. `file` is used in messages and, without its folders and ending, as the name
// of a machine whose text has none.
#pragma once

#include <string>
#include <string_view>

#include "topology/bandwidths.hpp"
#include "topology/gpu_models.hpp"
#include "topology/topology.hpp"

namespace plait {

// Our own form; machines/*.json and docs/topology.md show it.
Topology parse_machine_json(std::string_view text, const std::string& file);
// The same form; parse_machine_json(to_json(t), …) == t for every valid t.
std::string to_json(const Topology& topology);

// NCCL's topology file, as NCCL_TOPO_DUMP_FILE writes and NCCL_TOPO_FILE reads it, of all versions since 2.5. Unknown
// elements and attributes are ignored. All NVSwitches of a node become one device, since NVLink spreads over them. CPUs
// with different host_hash become different nodes, joined as replicate() joins them. RCCL's files, with xGMI links, are
// read, too. `gpu_model` is that of GPUs whose compute capability the file does not say.
Topology parse_nccl_xml(std::string_view text, const std::string& file, const GpuModel* gpu_model = nullptr);

// What the matrix of `nvidia-smi topo -m` does not tell.
struct NvidiaSmiAssumptions {
  double nvlink_lane_gbps = kAssumedNvlinkLaneGbps;
  double pcie_gbps = ::plait::pcie_gbps(kAssumedPcieGigatransfers, kAssumedPcieLanes);
  const GpuModel* gpu_model = nullptr;  // says both, where it is known
};
// The text of `nvidia-smi topo -m`, old or new, with or without NICs, affinities and legend, as printed or as pasted,
// also somewhere in a long report; lines of `nvidia-smi -L` in that tell the models. GPUs that show more lanes than a
// GPU has, or more than bridges join, are taken to be on an NVSwitch.
Topology parse_nvidia_smi(std::string_view text, const std::string& file, const NvidiaSmiAssumptions& assumptions = {});

// Any of the above, recognised by its content. `gpu_model` is that of the GPUs of which the text does not say it; where
// there are none, that is refused with kInvalidArgument.
Topology parse_topology(std::string_view text, const std::string& file, const GpuModel* gpu_model = nullptr);
// The same for a file of at most 64 MiB; "-" is standard input.
Topology read_topology(const std::string& path, const GpuModel* gpu_model = nullptr);

namespace internal {
// "machines/dgx1.v2.json" -> "dgx1.v2"; the name of a machine whose text has none.
std::string stem(const std::string& path);
// Throws kInvalidArgument: a model was stated that the file states already.
[[noreturn]] void fail_model_is_known(const std::string& file);
}  // namespace internal

}  // namespace plait
