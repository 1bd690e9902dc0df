#include "runtime/name_holder.hpp"

#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "base/error.hpp"

namespace plait {
namespace {

constexpr const char* kAnotherName =
    "; if that is not a rank of this job, set PLAIT_JOB to one random text on all ranks";

// Returns who listens at `name`. No value if nobody does, or too many wait there.
std::optional<PeerCredentials> holder_of(const SocketAddress& name) {
  const SocketOrError connection = connect_to(name);
  return connection.error == 0 ? peer_of(connection.socket.get()) : std::nullopt;
}

std::string text_of_holder(const PeerCredentials& holder) {
  return holder.process_id > 0 ? join("pid ", holder.process_id) : "a process in another container";
}

}  // namespace

void require_one_user(int rank, const PeerCredentials& holder) {
  if (holder.user_id == ::geteuid()) return;
  fail(ErrorCode::kMismatch, "rank ", rank, ": the ranks' meeting place is held by ", text_of_holder(holder),
       " of user ", holder.user_id, ", this process belongs to user ", ::geteuid(),
       "; all ranks of a job must run as one user", kAnotherName);
}

UniqueFd listen_as_rank_zero(const SocketAddress& name) {
  // An earlier rank 0 of the same name may be about to release it.
  for (const Deadline deadline = Deadline::after(0.2);;) {
    UniqueFd listener = listen_at(name);
    if (listener) return listener;
    if (const auto holder = holder_of(name)) {
      require_one_user(0, *holder);
      fail(ErrorCode::kMismatch, "rank 0: another process (", text_of_holder(*holder),
           ") already waits for the ranks of this job as rank 0; were two processes given rank 0, or two jobs one "
           "PLAIT_JOB?");
    }
    if (deadline.passed()) {
      fail(ErrorCode::kMismatch,
           "rank 0: the ranks' meeting place is held by a socket at which nobody listens, or too many wait, so the "
           "kernel does not tell whose it is",
           kAnotherName);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace plait
