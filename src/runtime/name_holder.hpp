// Finds out who holds the name at which the ranks of a job are to meet, if it is not the job's rank 0. Names of jobs
// can often be guessed, and whoever comes first gets them.
#pragma once

#include "base/unique_fd.hpp"
#include "runtime/stream_socket.hpp"

namespace plait {

// Throws kMismatch, as rank `rank`, if the process at the other end belongs to another user.
void require_one_user(int rank, const PeerCredentials& holder);

// Rank 0 calls it to listen at `name`. Throws kMismatch if the name is taken, and says who holds it as far as the
// kernel tells.
UniqueFd listen_as_rank_zero(const SocketAddress& name);

}  // namespace plait
