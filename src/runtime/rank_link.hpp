// A connection to one rank.
#pragma once

#include <sys/types.h>

#include "base/unique_fd.hpp"

namespace plait {

struct RankLink {
  UniqueFd socket;
  pid_t process_id = 0;
};

}  // namespace plait
