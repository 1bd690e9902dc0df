// Reads what the kernel writes: files of /proc and /sys.
#pragma once

#include <cstddef>
#include <string>

namespace plait {

// The first `most_bytes` of a file; empty where it cannot be read.
std::string read_small_file(const std::string& path, size_t most_bytes = size_t{1} << 20);

}  // namespace plait
