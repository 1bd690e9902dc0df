// A file in memory that no file system shows: for memory that processes share.
#pragma once

#include <cstddef>

#include "base/unique_fd.hpp"

namespace plait {

// Makes a file of zeros. /proc shows it as `label`. Empty, with errno set, if the system gives none.
UniqueFd make_memory_file(const char* label, size_t bytes);

}  // namespace plait
