// Communicators begin and end: NCCL's, and Plait's beside it.
#include <algorithm>
#include <exception>
#include <memory>
#include <nccl_functions.hpp>
#include <span>
#include <string>
#include <vector>

#include "api/nccl/drop_in.hpp"
#include "api/nccl/joining.hpp"
#include "api/nccl/kept_calls.hpp"
#include "api/nccl/perform.hpp"
#include "api/nccl/side_table.hpp"
#include "base/error.hpp"

namespace plait::nccl {
namespace {

constexpr int kShrinkAborts = 1;  // NCCL_SHRINK_ABORT

using Ending = plaitResult_t (*)(plaitComm_t);

bool may_take_over() { return !is_inside_nccl() && DropIn::of_this_process().setting().mode != TakeMode::kNone; }

// After NCCL's function has returned; in a group its end does the rest.
ncclResult_t go_on(std::unique_ptr<Joining> joining, ncclResult_t result, ncclComm_t* comm, int rank, int ranks) {
  const bool is_under_way = result == ncclSuccess && joining != nullptr;
  if (!is_under_way) return result;
  if (thread_state.depth == 0) {
    joining->finish(*comm, rank, ranks);
    return result;
  }
  try {
    KeptCalls::of_this_thread().add_joining(std::move(joining), comm, rank, ranks);
  } catch (const std::exception&) {
    // No memory: the door shuts.
  }
  return result;
}

std::unique_ptr<Joining> begin_ranks(int ranks, std::span<const ncclUniqueId> ids, int rank,
                                     const ncclConfig_t* config) noexcept {
  try {
    if (!may_take_over() || !is_plain(config)) return nullptr;
    return Joining::begin(key_of_ids(ids), rank, ranks);
  } catch (const std::exception&) {
    return nullptr;
  }
}

// `describe` gives the text that tells this child from others.
template <class Describe>
std::unique_ptr<Joining> begin_child(const Companion& parent, const ncclConfig_t* config, Describe describe) noexcept {
  // In a group the child's rank is not known before its end, and nor would be whether it has one.
  if (!may_take_over() || thread_state.depth > 0 || !is_plain(config)) return nullptr;
  try {
    return Joining::begin(key_of_child(parent, describe()), parent.rank(), parent.ranks());
  } catch (const std::exception&) {
    return nullptr;  // no memory
  }
}

void finish_child(std::unique_ptr<Joining> joining, ncclResult_t result, ncclComm_t child) {
  int rank = -1, ranks = 0;
  const bool is_made = joining != nullptr && result == ncclSuccess && child != nullptr &&
                       real::ncclCommUserRank(child, &rank) == ncclSuccess &&
                       real::ncclCommCount(child, &ranks) == ncclSuccess;
  if (is_made && ranks > 1) joining->finish(child, rank, ranks);
}

Companion* companion_of(ncclComm_t comm) {
  return is_inside_nccl() ? nullptr : SideTable::of_this_process().find(comm);
}

// Ends Plait's communicator before NCCL's, so that no kernel of it is left waiting. Plait's error is logged, since the
// caller gets NCCL's result.
void end_plait(Companion& companion, Ending PlaitLibrary::* end) {
  plaitComm_t comm = companion.take_plait();
  if (comm == nullptr) return;
  const PlaitLibrary& plait = DropIn::of_this_process().plait();
  if ((plait.*end)(comm) == plaitSuccess) return;
  DropIn::of_this_process().notices().log().with_rank(companion.rank()).warn(plait.GetLastError(nullptr));
}

// Before a communicator ends, NCCL gets the calls on it that a group of this thread has kept.
void hand_over_kept(const Companion& companion) {
  if (thread_state.group != nullptr) thread_state.group->hand_over(&companion);
}

}  // namespace

ncclResult_t watched::ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  auto joining = begin_ranks(ranks, {&id, 1}, rank, nullptr);
  const ncclResult_t result = real::ncclCommInitRank(comm, ranks, id, rank);
  return go_on(std::move(joining), result, comm, rank, ranks);
}

ncclResult_t watched::ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                             ncclConfig_t* config) {
  auto joining = begin_ranks(ranks, {&id, 1}, rank, config);
  const ncclResult_t result = real::ncclCommInitRankConfig(comm, ranks, id, rank, config);
  return go_on(std::move(joining), result, comm, rank, ranks);
}

ncclResult_t watched::ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int ids, ncclUniqueId* id,
                                               ncclConfig_t* config) {
  const bool has_ids = id != nullptr && ids > 0;
  auto joining = has_ids ? begin_ranks(ranks, {id, static_cast<size_t>(ids)}, rank, config) : nullptr;
  const ncclResult_t result = real::ncclCommInitRankScalable(comm, ranks, rank, ids, id, config);
  return go_on(std::move(joining), result, comm, rank, ranks);
}

ncclResult_t watched::ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
  Companion* parent = companion_of(comm);
  std::unique_ptr<Joining> joining;
  if (parent != nullptr) {
    const int number = parent->next_split();  // counted by all ranks, those without a color among them
    const auto describe = [=] { return join("split ", number, " color ", color); };
    if (color >= 0) joining = begin_child(*parent, config, describe);
  }
  const ncclResult_t result = real::ncclCommSplit(comm, color, key, made, config);
  if (joining != nullptr) finish_child(std::move(joining), result, *made);
  return result;
}

ncclResult_t watched::ncclCommShrink(ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* made,
                                     ncclConfig_t* config, int flags) {
  Companion* parent = companion_of(comm);
  std::unique_ptr<Joining> joining;
  if (parent != nullptr && excluded != nullptr) {
    const int number = parent->next_shrink();
    joining = begin_child(*parent, config, [&] {
      std::string what = join("shrink ", number);
      std::vector<int> sorted(excluded, excluded + std::max(0, excluded_count));
      std::ranges::sort(sorted);
      for (const int rank : sorted) what += join(' ', rank);
      return what;
    });
    if ((flags & kShrinkAborts) != 0) end_plait(*parent, &PlaitLibrary::CommAbort);
  }
  const ncclResult_t result = real::ncclCommShrink(comm, excluded, excluded_count, made, config, flags);
  if (joining != nullptr) finish_child(std::move(joining), result, *made);
  return result;
}

ncclResult_t watched::ncclCommFinalize(ncclComm_t comm) {
  if (Companion* companion = companion_of(comm)) {
    hand_over_kept(*companion);
    end_plait(*companion, &PlaitLibrary::CommDestroy);
  }
  return real::ncclCommFinalize(comm);
}

ncclResult_t watched::ncclCommDestroy(ncclComm_t comm) {
  if (Companion* companion = companion_of(comm)) {
    hand_over_kept(*companion);
    end_plait(*companion, &PlaitLibrary::CommDestroy);
    SideTable::of_this_process().remove(companion);
  }
  return real::ncclCommDestroy(comm);
}

ncclResult_t watched::ncclCommAbort(ncclComm_t comm) {
  if (Companion* companion = companion_of(comm)) {
    hand_over_kept(*companion);
    end_plait(*companion, &PlaitLibrary::CommAbort);
    SideTable::of_this_process().remove(companion);
  }
  return real::ncclCommAbort(comm);
}

// Ends what is under way; the communicator can still be shrunk, so its companion stays. Older NCCL has no such
// function.
ncclResult_t watched::ncclCommRevoke(ncclComm_t comm, int flags) {
  const ncclResult_t result = real::ncclCommRevoke(comm, flags);
  Companion* companion = result == ncclSuccess ? companion_of(comm) : nullptr;
  if (companion != nullptr) end_plait(*companion, &PlaitLibrary::CommAbort);
  return result;
}

// NCCL performs calls on windows in ways of its own. All ranks register together, so all give up at the same call.
ncclResult_t watched::ncclCommWindowRegister(ncclComm_t comm, void* memory, size_t bytes, ncclWindow_t* window,
                                             int flags) {
  Companion* companion = companion_of(comm);
  if (companion != nullptr && companion->plait() != nullptr) {
    hand_over_kept(*companion);
    end_plait(*companion, &PlaitLibrary::CommDestroy);
    DropIn::of_this_process().notices().say(
        Subsystem::kInit,
        join("rank ", companion->rank(), " has registered a window: NCCL performs all calls from now on"));
  }
  return real::ncclCommWindowRegister(comm, memory, bytes, window, flags);
}

ncclResult_t watched::ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const ncclResult_t result = real::ncclCommGetAsyncError(comm, error);
  const Companion* companion = companion_of(comm);
  plaitComm_t plait = companion == nullptr ? nullptr : companion->plait();
  const bool may_ask = plait != nullptr && result == ncclSuccess && error != nullptr && *error == ncclSuccess;
  if (!may_ask) return result;
  plaitResult_t ours = plaitSuccess;
  const plaitResult_t asked = DropIn::of_this_process().plait().CommGetAsyncError(plait, &ours);
  // The handle may have ended under this thread.
  if (asked == plaitSuccess && ours != plaitSuccess) *error = to_nccl(ours, plait);
  return result;
}

}  // namespace plait::nccl
