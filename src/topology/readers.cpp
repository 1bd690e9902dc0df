#include "topology/readers.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/printable.hpp"
#include "topology/nvidia_smi_matrix.hpp"
#include "topology/text_file.hpp"

namespace plait {
namespace {

constexpr size_t kMaxFileBytes = size_t{64} << 20;

// Fills in the model if a machine file does not state it.
void state_model(Topology& topology, const std::string& file, const GpuModel& model) {
  bool used = false;
  for (Device& device : topology.devices) {
    if (device.kind != DeviceKind::kGpu || !device.model.empty()) continue;
    device.model = "NVIDIA " + std::string(model.name);
    used = true;
  }
  if (!used) internal::fail_model_is_known(file);
}

}  // namespace

namespace internal {

std::string stem(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
  const size_t dot = file.rfind('.');
  if (dot != std::string::npos && dot > 0) file.resize(dot);
  std::replace_if(file.begin(), file.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  file = printable(file);  // it becomes a machine's name
  return file.empty() || file == "-" ? "machine" : file;
}

void fail_model_is_known(const std::string& file) {
  fail(ErrorCode::kInvalidArgument, file, ": already says which GPUs these are; state a model only for other files");
}

}  // namespace internal

Topology parse_topology(std::string_view text, const std::string& file, const GpuModel* gpu_model) {
  std::string_view start = text.substr(text.substr(0, 3) == "\xef\xbb\xbf" ? 3 : 0);
  const size_t first = start.find_first_not_of(" \t\r\n");
  start = first == std::string_view::npos ? std::string_view() : start.substr(first);
  if (start.substr(0, 1) == "{") {
    Topology topology = parse_machine_json(text, file);
    if (gpu_model) state_model(topology, file, *gpu_model);
    return topology;
  }
  // A matrix has no magic word, and people keep it together with all they know of a machine, even in HTML.
  const bool markup = start.substr(0, 1) == "<";
  if (markup ? internal::has_nvidia_smi_matrix(text) : internal::has_nvidia_smi_line(text)) {
    NvidiaSmiAssumptions assumptions;
    assumptions.gpu_model = gpu_model;
    return parse_nvidia_smi(text, file, assumptions);
  }
  if (markup) return parse_nccl_xml(text, file, gpu_model);
  fail(ErrorCode::kInvalidInput, file,
       ":1: expected a machine in JSON, an NCCL topology file (XML) or the text of `nvidia-smi topo -m`, found ",
       start.empty() ? "nothing" : "none of them");
}

Topology read_topology(const std::string& path, const GpuModel* gpu_model) {
  return parse_topology(read_text_file(path, kMaxFileBytes), path, gpu_model);
}

}  // namespace plait
