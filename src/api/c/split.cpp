// Dividing a communicator. Its ranks tell each other what they want, then the first rank of each new communicator makes
// an id, and all ids go to all ranks.
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <vector>

#include "api/c/config.hpp"
#include "api/c/group.hpp"
#include "api/c/handle.hpp"
#include "api/c/result.hpp"
#include "runtime/stream_socket.hpp"

namespace plait::c {
namespace {

// Why a rank cannot go on, in words for the others; "": it can.
struct Reason {
  char text[512] = "";
};

struct Wish {
  int32_t color = PLAIT_SPLIT_NOCOLOR;
  int32_t key = 0;
  Reason refusal;  // this rank's arguments are wrong
};

// What a rank brings to where the ranks of a new communicator meet.
struct Offer {
  UniqueId id;     // the first one: where they meet
  Reason failure;  // it cannot come
};

template <class T>
std::vector<T> gather(Communicator& communicator, const T& mine) {
  Call division{Collective::kAllGather, DataType::kUint8, ReduceOp::kSum, 0, sizeof(T)};
  division.is_division = true;
  std::vector<T> all(static_cast<size_t>(communicator.size()));
  communicator.run(division, &mine, all.data());
  return all;
}

template <class... Parts>
[[noreturn]] void refuse_as_told(plaitResult_t result, const Parts&... parts) {
  throw Refusal(result, join(parts...), true);
}

void check_wishes(const std::vector<Wish>& wishes) {
  for (size_t rank = 0; rank < wishes.size(); ++rank) {
    const char* const reason = wishes[rank].refusal.text;
    if (*reason == '\0') continue;
    refuse_as_told(plaitInvalidUsage, "the arguments of rank ", rank,
                   " cannot be used, so nothing was divided: ", reason);
  }
}

// The ranks of one new communicator, in its order.
std::vector<int> ranks_of(const std::vector<Wish>& wishes, int color) {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < wishes.size(); ++rank) {
    if (wishes[rank].color == color) ranks.push_back(static_cast<int>(rank));
  }
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return wishes[a].key < wishes[b].key; });
  return ranks;
}

// One rank's arguments, checked; a refusal waits until the other ranks have heard of it.
struct Request {
  Wish wish;
  CommOptions options;
  std::exception_ptr refusal;  // none: there is nothing to refuse
};

// Thrown later, as though `body` were run then; none where it succeeds.
template <class Body>
std::exception_ptr failure_of(const Body& body) {
  try {
    body();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

Reason reason_of(const std::exception_ptr& failure) {
  Reason reason;
  if (!failure) return reason;
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    std::strncpy(reason.text, error.what(), sizeof(reason.text) - 1);
  }
  return reason;
}

Request request_for(plaitComm_t comm, int color, int key, const plaitComm_t* newcomm, const plaitConfig_t* config) {
  Request request{{color, key, {}}, {}, {}};
  request.refusal = failure_of([&] {
    require(newcomm, "newcomm");
    if (color < 0 && color != PLAIT_SPLIT_NOCOLOR) {
      refuse(plaitInvalidArgument, "color is ", color, "; expected 0 or more, or PLAIT_SPLIT_NOCOLOR");
    }
    const auto parent = member_of(comm);
    if (!parent) return;  // Use says so
    request.options = options_from(config, {comm->device, parent->communicator.settings()});
    if (request.options.device != comm->device) {
      refuse(plaitInvalidArgument, "config->device is ", request.options.device, ", that of comm is ", comm->device,
             "; a divided communicator keeps its device");
    }
  });
  request.wish.refusal = reason_of(request.refusal);
  return request;
}

plaitComm_t split(plaitComm_t comm, const Request& request) {
  const Use parent(comm);
  const int rank = parent->rank();
  const std::vector<Wish> wishes = gather(*parent, request.wish);
  if (request.refusal) std::rethrow_exception(request.refusal);
  check_wishes(wishes);

  const bool joins = request.wish.color != PLAIT_SPLIT_NOCOLOR;
  const std::vector<int> ranks = joins ? ranks_of(wishes, request.wish.color) : std::vector<int>();
  Offer offer;
  std::optional<RendezvousPoint> point;
  UniqueFd spare;  // who cannot open a socket says so before the others wait for it
  const std::exception_ptr failure = failure_of([&] {
    if (!joins) return;
    if (ranks.front() != rank) {
      spare = new_socket(AF_UNIX);
      return;
    }
    point = RendezvousPoint::create();
    offer.id = point->id();
  });
  offer.failure = reason_of(failure);
  const std::vector<Offer> offers = gather(*parent, offer);
  if (!joins) return nullptr;
  if (failure) std::rethrow_exception(failure);
  for (const int other : ranks) {
    const char* const reason = offers[static_cast<size_t>(other)].failure.text;
    if (*reason == '\0') continue;
    refuse_as_told(plaitRemoteError, "rank ", other, " could not open a socket for the ranks of color ",
                   request.wish.color, ": ", reason);
  }

  const CommOptions& options = request.options;
  const int size = static_cast<int>(ranks.size());
  if (point) return plaitComm::make(Communicator::create(std::move(*point), size, options.settings, options.device));
  const UniqueId& id = offers[static_cast<size_t>(ranks.front())].id;
  const int new_rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  spare.reset();
  return plaitComm::make(Communicator::create(id, new_rank, size, options.settings, options.device));
}

}  // namespace
}  // namespace plait::c

using namespace plait::c;

extern "C" plaitResult_t plaitCommSplit(plaitComm_t comm, int color, int key, plaitComm_t* newcomm,
                                        const plaitConfig_t* config) {
  return Group::at_edge("plaitCommSplit", [&] {
    check_handle(comm);
    if (newcomm != nullptr) *newcomm = nullptr;
    const auto make = [comm, request = request_for(comm, color, key, newcomm, config)] { return split(comm, request); };
    Group::of_this_thread().make({"plaitCommSplit", make, newcomm, comm});
  });
}
