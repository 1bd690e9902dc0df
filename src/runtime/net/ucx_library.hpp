// UCX's library, opened at run time. Only its headers are needed to build this, and nothing links it: a cluster has a
// UCX of its own that knows its network, a laptop takes the wheel.
#pragma once

#include <ucp/api/ucp.h>

#include <string>
#include <vector>

#include "runtime/net/tcp_settings.hpp"

namespace plait {

class UcxLibrary {
 public:
  // Opens the one that is in this process already, whoever brought it, since two versions in one process break each
  // other. Else the first of `candidates` that there is. Throws kResources with the reason of each and how to get it.
  explicit UcxLibrary(const std::vector<std::string>& candidates);

  // "UCX 1.22.0 (/usr/lib/…/libucp.so.0)".
  std::string name() const;
  UcxVersion version() const;
  // Throws kSystem with UCX's words, and `hint`, where `status` is an error.
  void check(ucs_status_t status, const char* what, const char* hint = "") const;

  // As in ucp.h.
  decltype(&ucp_init_version) init_version = nullptr;
  decltype(&ucp_cleanup) cleanup = nullptr;
  decltype(&ucp_config_read) config_read = nullptr;
  decltype(&ucp_config_modify) config_modify = nullptr;
  decltype(&ucp_config_release) config_release = nullptr;
  decltype(&ucp_context_query) context_query = nullptr;
  decltype(&ucp_worker_create) worker_create = nullptr;
  decltype(&ucp_worker_destroy) worker_destroy = nullptr;
  decltype(&ucp_worker_get_address) worker_get_address = nullptr;
  decltype(&ucp_worker_release_address) worker_release_address = nullptr;
  decltype(&ucp_worker_progress) worker_progress = nullptr;
  decltype(&ucp_worker_get_efd) worker_get_efd = nullptr;
  decltype(&ucp_worker_arm) worker_arm = nullptr;
  decltype(&ucp_ep_create) ep_create = nullptr;
  decltype(&ucp_ep_close_nbx) ep_close_nbx = nullptr;
  decltype(&ucp_tag_send_nbx) tag_send_nbx = nullptr;
  decltype(&ucp_tag_send_sync_nbx) tag_send_sync_nbx = nullptr;
  decltype(&ucp_tag_recv_nbx) tag_recv_nbx = nullptr;
  decltype(&ucp_tag_probe_nb) tag_probe_nb = nullptr;
  decltype(&ucp_request_cancel) request_cancel = nullptr;
  decltype(&ucp_request_free) request_free = nullptr;
  decltype(&ucp_request_check_status) request_check_status = nullptr;
  decltype(&ucs_status_string) status_string = nullptr;

 private:
  void open(const std::vector<std::string>& candidates);
  template <class Function>
  void require(const char* symbol, Function& function) const;

  decltype(&ucp_get_version) get_version_ = nullptr;
  decltype(&ucp_get_version_string) get_version_string_ = nullptr;
  void* library_ = nullptr;  // never closed: it has hooks in the process that outlive this
  std::string path_;
};

}  // namespace plait
