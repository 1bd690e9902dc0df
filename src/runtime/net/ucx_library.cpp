// Opening UCX's library.
#if PLAIT_HAVE_UCX
#include "runtime/net/ucx_library.hpp"

#include <dlfcn.h>

#include "base/error.hpp"

namespace plait {
namespace {

constexpr const char* kUcxName = "libucp.so.0";

}  // namespace

UcxLibrary::UcxLibrary(const std::vector<std::string>& candidates) {
  open(candidates);
  require("ucp_init_version", init_version);
  require("ucp_cleanup", cleanup);
  require("ucp_config_read", config_read);
  require("ucp_config_modify", config_modify);
  require("ucp_config_release", config_release);
  require("ucp_context_query", context_query);
  require("ucp_worker_create", worker_create);
  require("ucp_worker_destroy", worker_destroy);
  require("ucp_worker_get_address", worker_get_address);
  require("ucp_worker_release_address", worker_release_address);
  require("ucp_worker_progress", worker_progress);
  require("ucp_worker_get_efd", worker_get_efd);
  require("ucp_worker_arm", worker_arm);
  require("ucp_ep_create", ep_create);
  require("ucp_ep_close_nbx", ep_close_nbx);
  require("ucp_tag_send_nbx", tag_send_nbx);
  require("ucp_tag_send_sync_nbx", tag_send_sync_nbx);
  require("ucp_tag_recv_nbx", tag_recv_nbx);
  require("ucp_tag_probe_nb", tag_probe_nb);
  require("ucp_request_cancel", request_cancel);
  require("ucp_request_free", request_free);
  require("ucp_request_check_status", request_check_status);
  require("ucs_status_string", status_string);
  require("ucp_get_version", get_version_);
  require("ucp_get_version_string", get_version_string_);
}

void UcxLibrary::open(const std::vector<std::string>& candidates) {
  path_ = kUcxName;
  library_ = dlopen(kUcxName, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  std::string reasons;
  for (const std::string& candidate : candidates) {
    if (library_ != nullptr) return;
    path_ = candidate;
    library_ = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library_ == nullptr) reasons += join(reasons.empty() ? "" : "; ", dlerror());
  }
  if (library_ != nullptr) return;
  fail(ErrorCode::kResources, "there is no UCX here (", reasons,
       "); install it (apt-get install libucx0, pip install libucx-cu13, or the cluster's own), or name libucp.so.0 in "
       "PLAIT_UCX_LIBRARY");
}

template <class Function>
void UcxLibrary::require(const char* symbol, Function& function) const {
  function = reinterpret_cast<Function>(dlsym(library_, symbol));
  if (function != nullptr) return;
  fail(ErrorCode::kResources, path_, " has no ", symbol,
       ": it is not UCX, or older than 1.11; name another libucp.so.0 ", "in PLAIT_UCX_LIBRARY");
}

std::string UcxLibrary::name() const {
  Dl_info info{};
  const bool found = dladdr(reinterpret_cast<void*>(init_version), &info) != 0 && info.dli_fname != nullptr;
  return join("UCX ", get_version_string_(), " (", found ? info.dli_fname : path_.c_str(), ")");
}

UcxVersion UcxLibrary::version() const {
  UcxVersion version;
  unsigned release = 0;
  get_version_(&version.major, &version.minor, &release);
  return version;
}

void UcxLibrary::check(ucs_status_t status, const char* what, const char* hint) const {
  if (UCS_STATUS_IS_ERR(status)) fail(ErrorCode::kSystem, what, ": ", name(), " says ", status_string(status), hint);
}

}  // namespace plait
#endif
