// Opens the transport that there is here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/net/tcp_settings.hpp"
#include "runtime/net/transport.hpp"

namespace plait {

// `libraries`: paths or names of UCX's libucp.so.0, the first that opens is taken. Throws kResources where there is
// none, or where Plait was built without UCX's headers, with what to do.
//
// `settings`: of UCX, the same on all ranks. `for_gpus`: messages shall leave from GPU memory, too, if UCX can do that
// (Transport::reaches_gpus); else UCX leaves GPUs alone.
std::unique_ptr<Transport> open_transport(const std::vector<std::string>& libraries,
                                          const std::vector<UcxSetting>& settings = settings_for_tcp(),
                                          bool for_gpus = false);

// Whether this build can use a UCX.
bool has_transport();

}  // namespace plait
