// Dividing a communicator. Its ranks tell each other what they want, then the first rank of each new communicator makes
// an id, and all ids go to all ranks.
#include "api/split.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "runtime/collective_step.hpp"
#include "runtime/hosts.hpp"
#include "runtime/stream_socket.hpp"

namespace plait {
namespace {

constexpr int32_t kNoColor = -1;

// The arguments of a rank, or why they cannot be used.
struct Wish : StepResult {
  int32_t color = kNoColor;
  int32_t key = 0;
};

// Says whether a rank could open a socket for its new communicator.
struct SocketOfRank : StepResult {
  UniqueId id;  // of the first rank: where the ranks of the new communicator meet
};

template <class T>
std::vector<T> gather(Communicator& communicator, const T& mine) {
  Call division{Collective::kAllGather, DataType::kUint8, ReduceOp::kSum, 0, sizeof(T)};
  division.is_split = true;
  std::vector<T> all(static_cast<size_t>(communicator.size()));
  communicator.run(division, &mine, all.data());
  return all;
}

void check(const SplitRequest& request) {
  if (request.refusal) std::rethrow_exception(request.refusal);
  if (request.color && *request.color < 0) {
    fail(ErrorCode::kInvalidArgument, "color is ", *request.color, "; expected 0 or more");
  }
  request.settings.check();
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

bool are_on_several_hosts(const std::vector<int>& ranks, const Hosts& hosts) {
  return std::ranges::any_of(ranks, [&](int rank) { return hosts.node_of(rank) != hosts.node_of(ranks.front()); });
}

// Throws the failure of another rank; each rank throws its own as it is.
template <class Result>
void check_others(const std::vector<Result>& results, ErrorCode code) {
  if (const Result* failed = first_failure(results)) throw SplitRefused(code, failed->reason);
}

}  // namespace

std::optional<Communicator> split(Communicator& parent, const SplitRequest& request, InterruptCheck interrupt_check) {
  const int rank = parent.rank();
  Wish wish;
  const std::exception_ptr refusal = try_step(
      wish, join("the arguments of rank ", rank, " cannot be used, so nothing was divided"), [&] { check(request); });
  wish.color = request.color.value_or(kNoColor);
  wish.key = request.key;
  const std::vector<Wish> wishes = gather(parent, wish);
  if (refusal) std::rethrow_exception(refusal);
  check_others(wishes, ErrorCode::kInvalidArgument);

  const bool joins = request.color.has_value();
  const std::vector<int> ranks = joins ? ranks_of(wishes, *request.color) : std::vector<int>();
  SocketOfRank own;
  std::optional<RendezvousPoint> point;
  UniqueFd spare;  // a rank that cannot open a socket says so before the others wait for it
  const auto open_socket = [&] {
    if (!joins) return;
    if (ranks.front() != rank) {
      spare = new_socket(AF_UNIX);
      return;
    }
    const std::string& interfaces = request.settings.socket_interfaces;
    const Hosts& hosts = parent.hosts();
    const bool far = are_on_several_hosts(ranks, hosts);
    point = far ? RendezvousPoint::create_for_hosts(interfaces, hosts.address(hosts.node_of(rank)))
                : RendezvousPoint::create(interfaces);
    own.id = point->id();
  };
  const std::exception_ptr failure =
      try_step(own, join("rank ", rank, " could not open a socket for the ranks of color ", wish.color), open_socket);
  const std::vector<SocketOfRank> all = gather(parent, own);
  if (!joins) return std::nullopt;
  if (failure) std::rethrow_exception(failure);
  std::vector<SocketOfRank> sockets;
  for (const int member : ranks) sockets.push_back(all[static_cast<size_t>(member)]);
  check_others(sockets, ErrorCode::kResources);

  const int size = static_cast<int>(ranks.size()), device = request.on_host ? kNoDevice : parent.device();
  if (point) {
    return Communicator::create(std::move(*point), size, request.settings, device, std::move(interrupt_check));
  }
  const int new_rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  spare.reset();
  return Communicator::create(sockets.front().id, new_rank, size, request.settings, device, std::move(interrupt_check));
}

}  // namespace plait
