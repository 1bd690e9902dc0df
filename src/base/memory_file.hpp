// A file in memory that no file system shows: for memory that processes share.
#pragma once

#include <cstddef>

#include "base/unique_fd.hpp"

namespace plait {

// All zeros. `label` is what /proc calls it. Empty, and errno, where there is none to be had.
UniqueFd make_memory_file(const char* label, size_t bytes);

}  // namespace plait
