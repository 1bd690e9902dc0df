// How ranks meet. Rank 0 listens, all others connect, and each side proves to the other that it knows
// the secret of the id. The result is a star of connections around rank 0. See docs/dev/meeting.md.
#pragma once

#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "runtime/bootstrap_messages.hpp"
#include "runtime/bootstrap_options.hpp"
#include "runtime/rank_link.hpp"
#include "runtime/unique_id.hpp"

namespace plait {

// Rank 0 waits until all ranks have proved who they are. Returns links by rank; the link of rank 0 is empty. Closes the
// point. Strangers are refused without disturbing the ranks: other users at once if the kernel identifies them, a wrong
// answer at once, and a silent caller after two seconds. At most kMostCallers connections may be unproven at a time.
// Throws kTimeout if ranks are missing, kPeerFailed if a rank ended, kMismatch for a duplicate rank, another size or
// another version, and what the interrupt check throws. Every rank that has arrived is told first.
std::vector<RankLink> gather_ranks(RendezvousPoint point, int size, const BootstrapOptions& options);

// The same for ranks that met before, and now, in `stage`, need other connections as well. If one of them ends before
// it is back, that shows at its link in `met`. No message may be under way on those links.
std::vector<RankLink> gather_ranks_again(RendezvousPoint point, std::span<const RankLink> met, Stage stage,
                                         const BootstrapOptions& options);

// Other ranks connect to rank 0. If rank 0 of a job is not there yet, they try again until the time is over.
// `seconds_left` becomes how long rank 0 still waits for the others. Throws kTimeout if rank 0 does not come, and
// kPeerFailed if it cannot come any more. Throws kMismatch if it belongs to another user or refuses this rank, and what
// the interrupt check throws.
RankLink reach_rank_zero(const UniqueId& id, int rank, int size, const BootstrapOptions& options, double& seconds_left);

// Rank 0 tells all ranks why it gives up, as far as that is possible without waiting.
void send_failure(std::span<const RankLink> links, const Failure& failure);

// Reads the failure that rank 0 sent to `rank` after its Frame, and throws it.
[[noreturn]] void receive_failure(int socket, int rank, const Deadline& deadline);

// The most connections that may be unproven at one time.
inline constexpr size_t kMostCallers = 128;

}  // namespace plait
