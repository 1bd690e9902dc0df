// A communicator of NCCL's as the drop-in knows it, and Plait's communicator beside it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "api/nccl/local_rendezvous.hpp"
#include "api/nccl/nccl_call.hpp"
#include "api/nccl/take_setting.hpp"
#include "api/nccl/wins.hpp"
#include "plait/plait.h"

namespace plait::nccl {

// A pre-multiplied sum of NCCL's, and Plait's of the same scalar.
struct PremulPair {
  ncclDataType_t type;
  plaitRedOp_t op;
};

class Companion {
 public:
  Companion(ncclComm_t handle, const RendezvousKey& key, int rank, int ranks)
      : handle_(handle), key_(key), rank_(rank), ranks_(ranks) {}

  ncclComm_t handle() const { return handle_; }
  const RendezvousKey& key() const { return key_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // Lets Plait's communicator perform the calls that `setting` and `table` name, from now on. Must be called before
  // others can find the companion.
  void take_over(plaitComm_t comm, const TakeSetting& setting, std::shared_ptr<const WinsTable> table);

  // Null where every call goes to NCCL: none was made, or it was ended or given up.
  plaitComm_t plait() const { return plait_.load(std::memory_order_acquire); }
  // Gives Plait's communicator to the caller, to end it; null where another has it.
  plaitComm_t take_plait() { return plait_.exchange(nullptr, std::memory_order_acq_rel); }
  // Whether messages go by Plait: all of a communicator's or none, since two ranks may group them differently.
  bool takes_messages() const { return setting_.mode == TakeMode::kAll; }

  // Why NCCL performs a call; null where Plait does, with `op` as its operation. It follows from what is the same on
  // all ranks alone: that a call is captured is, too, by NCCL's own rule.
  const char* why_forwarded(const NcclCall& call, plaitRedOp_t& op);

  // Pre-multiplied sums, by NCCL's number.
  void add_premul(ncclRedOp_t number, const PremulPair& pair);
  std::optional<PremulPair> find_premul(ncclRedOp_t number);
  std::optional<PremulPair> take_premul(ncclRedOp_t number);

  // Children of one parent have different keys. All of its ranks count alike.
  int next_split() { return splits_.fetch_add(1); }
  int next_shrink() { return shrinks_.fetch_add(1); }

 private:
  const ncclComm_t handle_;
  const RendezvousKey key_;
  const int rank_;
  const int ranks_;
  TakeSetting setting_{TakeMode::kNone};
  std::shared_ptr<const WinsTable> table_;
  std::atomic<plaitComm_t> plait_{nullptr};
  std::atomic<int> splits_{0}, shrinks_{0};
  std::mutex mutex_;
  std::map<int, PremulPair> premuls_;
};

}  // namespace plait::nccl
