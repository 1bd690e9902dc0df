// How the ranks of one host meet: rank 0 listens, all others connect, each side proves to the other that it knows the
// secret of the id. What comes out is a star of connections with rank 0 in the middle. See docs/bootstrap.md.
#pragma once

#include <sys/types.h>

#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "runtime/bootstrap_messages.hpp"
#include "runtime/bootstrap_options.hpp"
#include "runtime/unique_id.hpp"

namespace plait {

// A connection to one rank.
struct RankLink {
  UniqueFd socket;
  pid_t process_id = 0;
};

// Rank 0: waits until all ranks have proved who they are. Links by rank; that of rank 0 is empty. Closes the point.
// Strangers are refused without disturbing the ranks: other users at once where the kernel tells, whoever is wrong at
// once, whoever is silent after two seconds, and there is room for kMostCallers unproven connections at a time. Throws
// what went wrong, having told every rank that has arrived: ranks missing (kTimeout), a rank that ended (kPeerFailed),
// a duplicate rank, another size or another version (kMismatch), what the interrupt check throws.
std::vector<RankLink> gather_ranks(RendezvousPoint point, int size, const BootstrapOptions& options);

// The same for ranks that have met before, during `stage`, to have other connections as well. One of them that ends
// before it is here again shows at its link in `met`, over which nothing may be under way.
std::vector<RankLink> gather_ranks_again(RendezvousPoint point, std::span<const RankLink> met, Stage stage,
                                         const BootstrapOptions& options);

// Other ranks: connects to rank 0. Where rank 0 of a job is not there yet, tries again until the time is over.
// `seconds_left` becomes how long rank 0 still waits for the others. Throws where rank 0 does not come (kTimeout), can
// not come any more (kPeerFailed), belongs to another user, or refuses this rank (kMismatch); what the interrupt check
// throws.
RankLink reach_rank_zero(const UniqueId& id, int rank, int size, const BootstrapOptions& options, double& seconds_left);

// Rank 0: tells all ranks why it gives up, as far as that is possible without waiting.
void send_failure(std::span<const RankLink> links, const Failure& failure);

// Throws the failure that rank 0 sent to `rank`, after its Frame.
[[noreturn]] void receive_failure(int socket, int rank, const Deadline& deadline);

// How many connections may be unproven at one time.
inline constexpr size_t kMostCallers = 128;

}  // namespace plait
