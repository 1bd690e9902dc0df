// How a communicator that NCCL makes comes to have a companion.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "api/nccl/companion.hpp"
#include "api/nccl/local_rendezvous.hpp"

namespace plait::nccl {

// The key of a communicator that is made from ids of ncclGetUniqueId.
RendezvousKey key_of_ids(std::span<const ncclUniqueId> ids);
// The key of a child: `what` tells splits, their numbers and colors apart.
RendezvousKey key_of_child(const Companion& parent, const std::string& what);

// Whether a config asks for nothing but what Plait gives, too. Null is such a one.
bool is_plain(const ncclConfig_t* config);

class Joining {
 public:
  // Before NCCL makes the communicator: this rank's door is open from now on. `place` is one of `places`, see
  // LocalRendezvous. Null where Plait shall not take over, or where something is in the way.
  static std::unique_ptr<Joining> begin(const RendezvousKey& key, int place, int places) noexcept;

  // After NCCL has made it: adds a companion to the side table, and decides with all other ranks whether Plait takes
  // calls over. Without, the door shuts, and nothing is taken over on any rank.
  void finish(ncclComm_t comm, int rank, int ranks) noexcept;

 private:
  Joining(const RendezvousKey& key, LocalRendezvous rendezvous) : key_(key), rendezvous_(std::move(rendezvous)) {}

  // Plait's communicator beside that of `companion`, or the reason why there is none.
  VoteResult take_over(Companion& companion);

  RendezvousKey key_;
  LocalRendezvous rendezvous_;
};

}  // namespace plait::nccl
