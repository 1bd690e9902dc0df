// Who holds the name where the ranks of a job are to meet, where it is not the rank 0 that belongs there. Names of jobs
// can often be guessed, and whoever comes first has them.
#pragma once

#include "base/unique_fd.hpp"
#include "runtime/stream_socket.hpp"

namespace plait {

// Throws kMismatch, as rank `rank`, where the process at the other end belongs to another user.
void require_one_user(int rank, const PeerCredentials& holder);

// Rank 0: listens there. Throws kMismatch, which says whose the name is as far as the kernel tells, where it is taken.
UniqueFd listen_as_rank_zero(const SocketAddress& name);

}  // namespace plait
