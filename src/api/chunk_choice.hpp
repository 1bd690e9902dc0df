// Chooses the chunks in which a call over several hosts is staged (NVG-62): many overlap more, few cost less.
#pragma once

#include <cstddef>
#include <functional>

namespace plait {

// The time that the model takes a copy of a GPU's buffer to host memory, or back, to need.
double staging_seconds(size_t bytes);

// The time of a message that is staged in chunks of so many bytes by so many lanes, which take them in turn.
// `host_seconds`: that of a chunk on host memory.
using HostSeconds = std::function<double(size_t bytes)>;
double staged_seconds(size_t message_bytes, size_t chunk_bytes, size_t lanes, const HostSeconds& host_seconds);

// Bytes of a chunk of a message, at most `most_bytes`. All ranks choose alike.
size_t choose_chunk(size_t message_bytes, size_t most_bytes, size_t lanes, const HostSeconds& host_seconds);

}  // namespace plait
