// Keeping the calls of a group, and performing them.
#include "api/nccl/kept_calls.hpp"

#include <algorithm>
#include <exception>

#include "api/nccl/drop_in.hpp"
#include "api/nccl/perform.hpp"
#include "api/nccl/thread_state.hpp"

namespace plait::nccl {

KeptCalls& KeptCalls::of_this_thread() {
  if (thread_state.group == nullptr) thread_state.group = new KeptCalls;
  return *thread_state.group;
}

void KeptCalls::drop_of_this_thread() noexcept {
  delete thread_state.group;
  thread_state.group = nullptr;
}

KeptCalls::Kept& KeptCalls::kept_of(Companion& companion, bool are_messages) {
  for (Kept& kept : kept_) {
    if (kept.companion == &companion && kept.are_messages == are_messages) return kept;
  }
  return kept_.emplace_back(Kept{&companion, are_messages, false, {}});
}

ncclResult_t KeptCalls::add(Companion& companion, const NcclCall& call, plaitRedOp_t op, const char* why) {
  Kept& kept = kept_of(companion, is_message(call.kind));
  if (why == nullptr && !kept.goes_to_nccl) {
    kept.calls.push_back({call, op});
    return ncclSuccess;
  }
  const ncclResult_t before = hand_over(kept);
  const ncclResult_t result = forward(call);
  return before != ncclSuccess ? before : result;
}

ncclResult_t KeptCalls::hand_over(Kept& kept) {
  kept.goes_to_nccl = true;
  ncclResult_t first = ncclSuccess;
  for (const KeptCall& it : kept.calls) {
    const ncclResult_t result = forward(it.call);
    if (first == ncclSuccess) first = result;
  }
  kept.calls.clear();
  return first;
}

ncclResult_t KeptCalls::hand_over(const Companion* companion) {
  ncclResult_t first = ncclSuccess;
  for (Kept& kept : kept_) {
    if (companion != nullptr && kept.companion != companion) continue;
    const ncclResult_t result = hand_over(kept);
    if (first == ncclSuccess) first = result;
  }
  return first;
}

ncclResult_t KeptCalls::perform_all() noexcept {
  size_t calls = 0;
  for (const Kept& kept : kept_) calls += kept.calls.size();
  if (calls == 0) return ncclSuccess;
  const PlaitLibrary& plait = DropIn::of_this_process().plait();
  ncclResult_t first = ncclSuccess;
  const auto note = [&](ncclResult_t result) { first = first == ncclSuccess ? result : first; };
  if (calls > 1) note(to_nccl(plait.GroupStart(), nullptr));
  for (const bool are_messages : {false, true}) {
    for (const Kept& kept : kept_) {
      if (kept.are_messages != are_messages) continue;
      for (const KeptCall& it : kept.calls) note(perform(kept.companion->plait(), it.call, it.op));
    }
  }
  if (calls > 1) note(to_nccl(plait.GroupEnd(), nullptr));
  kept_.clear();
  return first;
}

void KeptCalls::add_joining(std::unique_ptr<Joining> joining, ncclComm_t* comm, int rank, int ranks) {
  pending_.push_back({std::move(joining), comm, rank, ranks});
  if (pending_.size() == 1) return;
  for (Pending& pending : pending_) pending.joining.reset();
}

void KeptCalls::finish_joining(ncclResult_t result) noexcept {
  for (Pending& pending : pending_) {
    const bool is_made = result == ncclSuccess && pending.joining != nullptr;
    if (is_made) pending.joining->finish(*pending.comm, pending.rank, pending.ranks);
  }
  pending_.clear();
}

}  // namespace plait::nccl
