// The rendezvous of a new communicator's ranks that run with the drop-in on one host. It is apart from NCCL's.
//
// A rank opens its door, a socket at a name that follows from what identifies the communicator, before it calls NCCL to
// make it. NCCL returns to no rank before all ranks have called. So a rank to which NCCL has returned sees at one
// glance who is here. A door that is not open belongs to a rank of another host, or to one that has no drop-in or does
// not want to take over. Nobody waits for those. Ranks wait only for those that are here, and not longer than
// `seconds`.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/nccl/vote.hpp"
#include "base/deadline.hpp"
#include "base/sha256.hpp"
#include "base/unique_fd.hpp"

namespace plait::nccl {

// Identifies a communicator, and is known to nobody else. Doors have names by it, and letters carry a proof of it.
using RendezvousKey = Sha256Digest;

// The key that follows from a parent's, or from a text, and more bytes.
RendezvousKey derive_key(std::span<const std::byte> parent, std::span<const std::byte> bytes);

class LocalRendezvous {
 public:
  // Opens the door of `place`, one of `places` at which ranks may be. Nothing where the system refuses.
  static std::optional<LocalRendezvous> enter(const RendezvousKey& key, int place, int places);

  // How many are here, this rank among them. To be called after NCCL has returned.
  int count_members();

  // All that are here vote; the first of them counts. Every rank gets the same result, unless one is stopped for
  // longer than `seconds`. A rank that ends, or leaves the rendezvous, makes it a no.
  VoteResult vote(const Vote& mine, double seconds);

 private:
  LocalRendezvous(const RendezvousKey& key, int place, int places, UniqueFd door)
      : key_(key), place_(place), places_(places), door_(std::move(door)) {}

  VoteResult collect(const Vote& mine, const Deadline& deadline);
  VoteResult follow(const Vote& mine, const Deadline& deadline);

  RendezvousKey key_;
  int place_;
  int places_;
  int round_ = 0;
  UniqueFd door_;
  std::vector<int> members_;  // places, ascending
};

}  // namespace plait::nccl
