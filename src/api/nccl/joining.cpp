// Making Plait's communicator beside NCCL's: all ranks vote whether they would take calls over, make it, and vote
// again.
#include "api/nccl/joining.hpp"

#include <unistd.h>

#include <climits>
#include <cstddef>
#include <exception>
#include <string>

#include "api/nccl/cuda_driver.hpp"
#include "api/nccl/drop_in.hpp"
#include "api/nccl/side_table.hpp"
#include "base/error.hpp"
#include "base/figures.hpp"

namespace plait::nccl {
namespace {

constexpr int kMostRanks = 16;                  // of Plait's communicators on GPUs
constexpr double kWeekSeconds = 7 * 24 * 3600;  // NCCL would wait for ever

// Variables by which a user tells NCCL how to work, and of which Plait knows nothing.
constexpr const char* kOrders[] = {"NCCL_ALGO",      "NCCL_PROTO",    "NCCL_P2P_DISABLE",
                                   "NCCL_P2P_LEVEL", "NCCL_MAX_CTAS", "NCCL_SHM_DISABLE"};

struct Terms {
  std::string objection;  // empty: there is none
  std::string gpu;
  int device = -1;
  const WinsTable* table = nullptr;
};

std::string objection_to_table(const DropIn& drop_in, const Terms& terms, int ranks) {
  const bool has_graphs = drop_in.setting().graphs;
  if (terms.table == nullptr) return join("no wins were measured on ", ranks, " x ", terms.gpu);
  const bool may_use_nvls =
      drop_in.variable("NCCL_NVLS_ENABLE") != "0" && CudaDriver::of_this_process().has_multicast(terms.device);
  if (may_use_nvls && !terms.table->has_nvls()) {
    return join("the wins of ", terms.table->name(),
                " were measured without NVLS, which NCCL may use here, unless "
                "NCCL_NVLS_ENABLE=0");
  }
  if (terms.table->collectives(false) == "nothing" && !has_graphs) {
    return join("the wins of ", terms.table->name(), " are in graphs alone (PLAIT_NCCL_TAKE=wins,graphs)");
  }
  return "";
}

Terms terms_of(DropIn& drop_in, int ranks) {
  Terms terms;
  const CudaDriver& cuda = CudaDriver::of_this_process();
  terms.device = cuda.current_device();
  if (terms.device >= 0) terms.gpu = cuda.device_name(terms.device);
  const auto ordered = [&](const char* name) {
    const std::string value = drop_in.variable(name);
    return !value.empty() && value != "0";
  };
  for (const char* name : kOrders) {
    if (ordered(name)) terms.objection = join(name, " is set, which Plait does not follow");
  }
  if (ranks > kMostRanks)
    terms.objection = join("there are ", counted(ranks, "rank"), ", and Plait takes at most ", kMostRanks);
  if (terms.device < 0) terms.objection = "no CUDA device is current";
  if (!terms.objection.empty()) return terms;
  if (drop_in.setting().mode == TakeMode::kWins) {
    terms.table = WinsTable::choose(drop_in.tables(), terms.gpu, ranks);
    terms.objection = objection_to_table(drop_in, terms, ranks);
  }
  if (terms.objection.empty()) terms.objection = drop_in.plait().error();
  return terms;
}

Vote vote_on(DropIn& drop_in, const Terms& terms, int rank) {
  Vote vote;
  vote.rank = rank;
  vote.process = ::getpid();
  vote.yes = terms.objection.empty() ? 1 : 0;
  vote.reason.set(terms.objection);
  vote.gpu.set(terms.gpu);
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

std::string what_is_taken(const DropIn& drop_in, const Terms& terms) {
  const bool has_graphs = drop_in.setting().graphs;
  if (drop_in.setting().mode == TakeMode::kAll) {
    return join("all collectives and messages", has_graphs ? ", also in graphs" : ", but not in graphs");
  }
  std::string text = terms.table->collectives(false);
  if (has_graphs) text += join("; in graphs ", terms.table->collectives(true));
  return join(text, ", at the sizes at which it won on ", terms.table->name());
}

}  // namespace

RendezvousKey key_of_ids(std::span<const ncclUniqueId> ids) {
  // Ranks that are told to be of different hosts shall not meet, nor those of different users.
  const std::string whose = join("plait nccl 1 ", ::getuid(), ' ', DropIn::of_this_process().variable("PLAIT_HOST_ID"));
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
    notices.say(join("rank ", rank, " of ", ranks, ": Plait", by, " takes over ",
                     is_taken ? "" : "nothing: ", result.reason.c_str()));
  } catch (const std::exception&) {
    // No memory. The door shuts, which is a no to all others.
  }
}

VoteResult Joining::take_over(Companion& companion) {
  DropIn& drop_in = DropIn::of_this_process();
  const Terms terms = terms_of(drop_in, companion.ranks());
  Vote vote = vote_on(drop_in, terms, companion.rank());
  const VoteResult first = rendezvous_.vote(vote, drop_in.vote_seconds());
  if (first.yes == 0) {
    if (vote.rank == 0 && vote.yes != 0) drop_id(drop_in.plait(), vote.id);
    return first;
  }
  plaitComm_t made = make(drop_in, companion, terms.device, first.id, vote);
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
