// The calls between ncclGroupStart and ncclGroupEnd that Plait may perform.
//
// Collectives of one communicator in one group go all to Plait or all to NCCL, in their order. Other communicators do
// not matter for that, since other ranks of this one may have none of them; nor do messages, which only two ranks see.
#pragma once

#include <memory>
#include <vector>

#include "api/nccl/companion.hpp"
#include "api/nccl/joining.hpp"

namespace plait::nccl {

class KeptCalls {
 public:
  // This thread's, made at its first use in a group.
  static KeptCalls& of_this_thread();
  static void drop_of_this_thread() noexcept;

  // A call that Plait would perform (`why` null), or that goes to NCCL.
  ncclResult_t add(Companion& companion, const NcclCall& call, plaitRedOp_t op, const char* why);

  // Hands what was kept of a communicator, or of all, to NCCL.
  ncclResult_t hand_over(const Companion* companion);

  // Performs what was kept: by Plait's communicators, collectives first.
  ncclResult_t perform_all() noexcept;

  // A communicator that NCCL makes at the end of the group. Several in one group are not taken over: one thread cannot
  // meet the other ranks of all of them at once.
  void add_joining(std::unique_ptr<Joining> joining, ncclComm_t* comm, int rank, int ranks);
  void finish_joining(ncclResult_t result) noexcept;

 private:
  struct KeptCall {
    NcclCall call;
    plaitRedOp_t op;
  };
  // Collectives and messages of a communicator are decided on apart.
  struct Kept {
    Companion* companion;
    bool are_messages;
    bool goes_to_nccl = false;
    std::vector<KeptCall> calls;
  };
  struct Pending {
    std::unique_ptr<Joining> joining;
    ncclComm_t* comm;
    int rank, ranks;
  };

  Kept& kept_of(Companion& companion, bool are_messages);
  ncclResult_t hand_over(Kept& kept);

  std::vector<Kept> kept_;
  std::vector<Pending> pending_;
};

}  // namespace plait::nccl
