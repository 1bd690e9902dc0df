// Plait takes those of UCX's transports that do not allocate on GPUs, since data of messages is always in host memory.
// Where UCX may use CUDA, it allocates GPU memory to find its fastest ways, from whatever thread sends first. CUDA
// keeps such a thread waiting while another one waits for the GPU, and the GPU may wait for this very message.
#pragma once

#include <string>
#include <string_view>

namespace plait {

// Returns the value that UCX_TLS should have in place of its own ("all" where it is not set): a list of names, or "^"
// and the names of those left out.
std::string host_transports(std::string_view ucx_tls);

}  // namespace plait
