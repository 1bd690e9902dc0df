#include "runtime/meetings.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

namespace plait {

Meetings::Meetings(std::byte* memory, int rank, int ranks)
    : ranks_(ranks),
      offers_of_calls_(memory, rank, ranks),
      offers_of_captured_(memory + Offers::bytes_for(ranks), rank, ranks) {}

bool Meetings::begin_call(bool captured) {
  captured_ = captured;
  before_ = next_;
  ++next_.all;
  if (captured) ++next_.captured;
  return in_step_;
}

bool Meetings::propose(const Proposal& ours) {
  static_assert(sizeof(Row) <= kOfferBytes && std::is_trivially_copyable_v<Row>);
  Offer offer = {};
  const Row own = {before_, ours};
  std::memcpy(offer.data(), &own, sizeof(own));
  call_ = ours.call;
  return offers().put(offer);
}

// Every rank compares what all ranks propose, so all come to the same result. Only `can` depends on one rank. A rank
// always votes, because the others wait for its vote.
bool Meetings::meet(std::chrono::nanoseconds timeout, const std::function<bool(std::span<const Proposal>)>& can) {
  if (!offers().all_put(timeout)) return false;
  std::vector<Proposal> proposals;
  bool all_willing = true;
  for (int rank = 0; rank < ranks_; ++rank) {
    const Offer theirs = offers().of(rank);
    Row row;
    std::memcpy(&row, theirs.data(), sizeof(row));
    in_step_ = in_step_ && row.before == before_;
    all_willing = all_willing && row.proposal.willing && row.proposal.call == call_;
    proposals.push_back(row.proposal);
  }
  offers().answer(in_step_ && all_willing && can(proposals));
  return true;
}

Meetings::Outcome Meetings::conclude(const std::function<void()>& look) {
  if (!offers().all_can(look)) return in_step_ ? Outcome::kRefused : Outcome::kOutOfStep;
  agreement_ = 2 * offers().meeting() + (captured_ ? 1 : 0);
  return Outcome::kAgreed;
}

}  // namespace plait
