// Counting votes.
#include "api/nccl/vote.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace plait::nccl {
namespace {

template <class Text>
VoteResult differ(const char* what, const Vote& a, const Vote& b, Text text) {
  return VoteResult::no(join(what, " differs: ", text(a), " on rank ", a.rank, ", ", text(b), " on rank ", b.rank));
}

}  // namespace

VoteResult VoteResult::no(std::string_view why) {
  VoteResult result;
  result.reason.set(why);
  return result;
}

VoteResult count_votes(std::span<const Vote> votes) {
  VoteResult result;
  result.yes = 1;
  for (const Vote& vote : votes) {
    if (vote.yes == 0) return VoteResult::no(join("rank ", vote.rank, ": ", vote.reason.c_str()));
    if (vote.rank == 0) result.id = vote.id;
  }
  const Vote& first = votes.front();
  for (const Vote& vote : votes.subspan(1)) {
    if (vote.version != first.version) {
      return differ("Plait's version", first, vote, [](const Vote& it) { return it.version; });
    }
    if (vote.take != first.take) {
      return differ("PLAIT_NCCL_TAKE", first, vote, [](const Vote& it) { return it.take.c_str(); });
    }
    if (vote.gpu != first.gpu) return differ("the GPU", first, vote, [](const Vote& it) { return it.gpu.c_str(); });
    if (vote.table != first.table) {
      return VoteResult::no(join("ranks ", first.rank, " and ", vote.rank, " have different tables of wins"));
    }
  }
  for (size_t i = 0; i < votes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (votes[i].process != votes[j].process) continue;
      return VoteResult::no(join("ranks ", votes[j].rank, " and ", votes[i].rank, " are of one process"));
    }
  }
  return result;
}

}  // namespace plait::nccl
