// Counting votes.
#include "api/nccl/vote.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace plait::nccl {
namespace {

template <class Text>
Verdict differ(const char* what, const Vote& a, const Vote& b, Text text) {
  return Verdict::no(join(what, " differs: ", text(a), " on rank ", a.rank, ", ", text(b), " on rank ", b.rank));
}

}  // namespace

Verdict Verdict::no(std::string_view why) {
  Verdict verdict;
  verdict.reason.set(why);
  return verdict;
}

Verdict count_votes(std::span<const Vote> votes) {
  Verdict verdict;
  verdict.yes = 1;
  for (const Vote& vote : votes) {
    if (vote.yes == 0) return Verdict::no(join("rank ", vote.rank, ": ", vote.reason.c_str()));
    if (vote.rank == 0) verdict.id = vote.id;
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
      return Verdict::no(join("ranks ", first.rank, " and ", vote.rank, " have different tables of wins"));
    }
  }
  for (size_t i = 0; i < votes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (votes[i].process != votes[j].process) continue;
      return Verdict::no(join("ranks ", votes[j].rank, " and ", votes[i].rank, " are of one process"));
    }
  }
  return verdict;
}

}  // namespace plait::nccl
