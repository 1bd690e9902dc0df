// Making Plait's communicator beside NCCL's: all ranks vote whether they would take calls over, make it, and vote
// again.
#include "api/nccl/joining.hpp"

#include <unistd.h>

#include <climits>
#include <cstddef>
#include <exception>
#include <string>

#include "api/nccl/drop_in.hpp"
#include "api/nccl/side_table.hpp"
#include "api/nccl/terms.hpp"
#include "base/error.hpp"

namespace plait::nccl {
namespace {

constexpr double kWeekSeconds = 7 * 24 * 3600;  // NCCL would wait for ever

Vote vote_on(DropIn& drop_in, const Terms& terms, const RankGpu& gpu, int rank) {
  Vote vote;
  vote.rank = rank;
  vote.process = ::getpid();
  vote.yes = terms.objection.empty() ? 1 : 0;
  vote.reason.set(terms.objection);
  vote.gpu.set(gpu.name);
  vote.take.set(drop_in.setting().text());
  if (terms.table != nullptr) vote.table = terms.table->digest();
  if (vote.yes == 0) return vote;
  const PlaitLibrary& plait = drop_in.plait();
  vote.version = plait.version();
  if (rank == 0 && plait.GetUniqueId(&vote.id) != plaitSuccess) {
    vote.yes = 0;
    vote.reason.set(plait.GetLastError(nullptr));
  }
  return vote;
}

plaitComm_t make(DropIn& drop_in, const Companion& companion, int device, const plaitUniqueId& id, Vote& vote) {
  const PlaitLibrary& plait = drop_in.plait();
  plaitConfig_t config = PLAIT_CONFIG_INITIALIZER;
  config.device = device;
  config.bootstrapTimeoutSeconds = drop_in.vote_seconds();
  if (drop_in.variable("PLAIT_TIMEOUT_SEC").empty()) config.timeoutSeconds = kWeekSeconds;
  plaitComm_t made = nullptr;
  if (plait.CommInitRankConfig(&made, companion.ranks(), id, companion.rank(), &config) == plaitSuccess) return made;
  vote.yes = 0;
  vote.reason.set(plait.GetLastError(nullptr));
  return nullptr;
}

// An id that nobody used keeps a socket: a communicator of one rank uses it up.
void drop_id(const PlaitLibrary& plait, const plaitUniqueId& id) {
  plaitConfig_t config = PLAIT_CONFIG_INITIALIZER;
  config.device = PLAIT_DEVICE_HOST;
  plaitComm_t alone = nullptr;
  if (plait.CommInitRankConfig(&alone, 1, id, 0, &config) == plaitSuccess) plait.CommDestroy(alone);
}

}  // namespace

RendezvousKey key_of_ids(std::span<const ncclUniqueId> ids) {
  // Ranks that are told to be of different hosts shall not meet, nor those of different users.
  const DropIn& drop_in = DropIn::of_this_process();
  const std::string host = join(drop_in.variable("PLAIT_HOST_ID"), ' ', drop_in.nccl().value("NCCL_HOSTID"));
  const std::string whose = join("plait nccl 1 ", ::getuid(), ' ', host);
  return derive_key(std::as_bytes(std::span(whose)), std::as_bytes(ids));
}

RendezvousKey key_of_child(const Companion& parent, const std::string& what) {
  return derive_key(std::as_bytes(std::span(parent.key())), std::as_bytes(std::span(what)));
}

bool is_plain(const ncclConfig_t* config) {
  constexpr unsigned kMagic = 0xcafebeef;
  if (config == nullptr) return true;
  if (config->size < sizeof(ncclConfig_t) || config->magic != kMagic) return false;
  const bool is_open =
      config->cga_cluster_size == INT_MIN && config->min_ctas == INT_MIN && config->max_ctas == INT_MIN;
  return config->blocking != 0 && is_open;
}

std::unique_ptr<Joining> Joining::begin(const RendezvousKey& key, int place, int places) noexcept {
  constexpr int kMostPlaces = 4096;
  try {
    if (places < 2 || places > kMostPlaces || place < 0 || place >= places) return nullptr;
    auto rendezvous = LocalRendezvous::enter(key, place, places);
    return rendezvous ? std::unique_ptr<Joining>(new Joining(key, std::move(*rendezvous))) : nullptr;
  } catch (const std::exception&) {
    return nullptr;
  }
}

void Joining::finish(ncclComm_t comm, int rank, int ranks) noexcept {
  if (comm == nullptr) return;
  try {
    DropIn& drop_in = DropIn::of_this_process();
    const Notices& notices = drop_in.notices();
    auto made = std::make_unique<Companion>(comm, key_, rank, ranks);
    if (!SideTable::of_this_process().add(made.get())) return;
    Companion& companion = *made.release();  // the side table has it for good
    VoteResult result;
    // Ranks that look later may see fewer, as others have left by then.
    const bool is_complete = rendezvous_.count_members() == ranks;
    if (is_complete) {
      result = take_over(companion);
    } else {
      result = VoteResult::no("not all of its ranks are on this host and may take over");
    }
    const bool is_taken = result.yes != 0;
    const std::string by = is_taken ? join(" (", drop_in.plait().path(), ')') : "";
    notices.say(Subsystem::kInit, join("rank ", rank, " of ", ranks, ": Plait", by, " takes over ",
                                       is_taken ? "" : "nothing: ", result.reason.c_str()));
  } catch (const std::exception&) {
    // No memory. The door shuts, which is a no to all others.
  }
}

VoteResult Joining::take_over(Companion& companion) {
  DropIn& drop_in = DropIn::of_this_process();
  const RankGpu gpu = RankGpu::current();
  const Terms terms = terms_of(drop_in, gpu, companion.ranks());
  Vote vote = vote_on(drop_in, terms, gpu, companion.rank());
  const VoteResult first = rendezvous_.vote(vote, drop_in.vote_seconds());
  if (first.yes == 0) {
    if (vote.rank == 0 && vote.yes != 0) drop_id(drop_in.plait(), vote.id);
    return first;
  }
  plaitComm_t made = make(drop_in, companion, gpu.device, first.id, vote);
  VoteResult second = rendezvous_.vote(vote, drop_in.vote_seconds());
  if (second.yes == 0) {
    if (made != nullptr) drop_in.plait().CommAbort(made);
    return second;
  }
  companion.take_over(made, drop_in.setting(), terms.table);
  second.reason.set(what_is_taken(drop_in, terms));
  return second;
}

}  // namespace plait::nccl
