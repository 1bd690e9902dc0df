// Dividing a communicator. Its ranks tell each other what they want, then the first rank of each new communicator makes
// an id, and all ids go to all ranks.
#include "api/split.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/stream_socket.hpp"

namespace plait {
namespace {

constexpr int32_t kNoColor = -1;

// Why a rank cannot go on, in words for the others; "": it can.
struct Reason {
  char text[512] = "";
};

struct Wish {
  int32_t color = kNoColor;
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
  division.is_split = true;
  std::vector<T> all(static_cast<size_t>(communicator.size()));
  communicator.run(division, &mine, all.data());
  return all;
}

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

// As it is, or with the reason why its fields cannot be used.
SplitRequest checked(SplitRequest request) {
  if (request.refusal) return request;
  request.refusal = failure_of([&] {
    if (request.color && *request.color < 0) {
      fail(ErrorCode::kInvalidArgument, "color is ", *request.color, "; expected 0 or more");
    }
    request.settings.check();
  });
  return request;
}

void check_wishes(const std::vector<Wish>& wishes) {
  for (size_t rank = 0; rank < wishes.size(); ++rank) {
    const char* const reason = wishes[rank].refusal.text;
    if (*reason == '\0') continue;
    throw SplitRefused(ErrorCode::kInvalidArgument,
                       join("the arguments of rank ", rank, " cannot be used, so nothing was divided: ", reason));
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

void check_offers(const std::vector<Offer>& offers, const std::vector<int>& ranks, int color) {
  for (const int rank : ranks) {
    const char* const reason = offers[static_cast<size_t>(rank)].failure.text;
    if (*reason == '\0') continue;
    throw SplitRefused(ErrorCode::kResources,
                       join("rank ", rank, " could not open a socket for the ranks of color ", color, ": ", reason));
  }
}

}  // namespace

std::optional<Communicator> split(Communicator& parent, const SplitRequest& given, InterruptCheck interrupt_check) {
  const SplitRequest request = checked(given);
  const int rank = parent.rank();
  const Wish wish{request.color.value_or(kNoColor), request.key, reason_of(request.refusal)};
  const std::vector<Wish> wishes = gather(parent, wish);
  if (request.refusal) std::rethrow_exception(request.refusal);
  check_wishes(wishes);

  const bool joins = request.color.has_value();
  const std::vector<int> ranks = joins ? ranks_of(wishes, *request.color) : std::vector<int>();
  Offer offer;
  std::optional<RendezvousPoint> point;
  UniqueFd spare;  // who cannot open a socket says so before the others wait for it
  const std::exception_ptr failure = failure_of([&] {
    if (!joins) return;
    if (ranks.front() != rank) {
      spare = new_socket(AF_UNIX);
      return;
    }
    point = RendezvousPoint::create(request.settings.socket_interfaces);
    offer.id = point->id();
  });
  offer.failure = reason_of(failure);
  const std::vector<Offer> offers = gather(parent, offer);
  if (!joins) return std::nullopt;
  if (failure) std::rethrow_exception(failure);
  check_offers(offers, ranks, *request.color);

  const int size = static_cast<int>(ranks.size()), device = parent.device();
  if (point) {
    return Communicator::create(std::move(*point), size, request.settings, device, std::move(interrupt_check));
  }
  const UniqueId& id = offers[static_cast<size_t>(ranks.front())].id;
  const int new_rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  spare.reset();
  return Communicator::create(id, new_rank, size, request.settings, device, std::move(interrupt_check));
}

}  // namespace plait
