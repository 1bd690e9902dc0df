// Which of UCX's transports Plait takes: none that allocates on GPUs. Data of messages is always in host memory. But
// UCX, where it may use CUDA, allocates GPU memory to find its fastest ways, from whatever thread sends first, and CUDA
// keeps such a thread waiting while another one waits for the GPU, which may wait for this very message.
#pragma once

#include <string>
#include <string_view>

namespace plait {

// What UCX_TLS should be in place of what it is ("all" where it is not set): a list of names, or "^" and the names of
// those left out.
std::string host_transports(std::string_view ucx_tls);

}  // namespace plait
