#include "runtime/net/ucx_transports.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace plait {
namespace {

constexpr const char* kOfGpus = "cuda";  // UCX's name for all of NVIDIA's together

// "cuda", "cuda_copy", "cuda_ipc", "gdr_copy"; a backslash before a name takes it alone.
bool is_of_gpus(std::string_view name) {
  if (name.starts_with('\\')) name.remove_prefix(1);
  return name.starts_with(kOfGpus) || name.starts_with("gdr_copy");
}

}  // namespace

std::string host_transports(std::string_view ucx_tls) {
  if (ucx_tls.starts_with('^')) return join(ucx_tls, ",", kOfGpus);
  std::string kept;
  while (!ucx_tls.empty()) {
    const std::string_view name = ucx_tls.substr(0, ucx_tls.find(','));
    ucx_tls.remove_prefix(std::min(name.size() + 1, ucx_tls.size()));
    if (name == "all") return join("^", kOfGpus);
    if (!name.empty() && !is_of_gpus(name)) kept += join(kept.empty() ? "" : ",", name);
  }
  return kept.empty() ? join("^", kOfGpus) : kept;
}

}  // namespace plait
