// Whom a collective lets give to whom.
#include "algorithms/steps/partners.hpp"

namespace plait {
namespace {

// The other ranks for which `is_partner` holds. Where there is a root, it is the only partner of all others.
template <class IsPartner>
std::vector<int> partners_of(const AlgorithmArguments& arguments, int rank, IsPartner is_partner) {
  std::vector<int> partners;
  const auto add = [&](int other) {
    if (is_partner(other)) partners.push_back(other);
  };
  if (has_root(arguments.collective) && rank != arguments.root) {
    add(arguments.root);
    return partners;
  }
  for (int d = 1; d < arguments.ranks; ++d) add((rank + d) % arguments.ranks);
  return partners;
}

}  // namespace

bool gives(const AlgorithmArguments& arguments, int from, int to) {
  switch (arguments.collective) {
    case Collective::kReduce:
    case Collective::kGather:
      return to == arguments.root;
    case Collective::kBroadcast:
    case Collective::kScatter:
      return from == arguments.root;
    default:  // all ranks give to all
      return true;
  }
}

std::vector<int> takers_from(const AlgorithmArguments& arguments, int rank) {
  return partners_of(arguments, rank, [&](int other) { return gives(arguments, rank, other); });
}

std::vector<int> givers_to(const AlgorithmArguments& arguments, int rank) {
  return partners_of(arguments, rank, [&](int other) { return gives(arguments, other, rank); });
}

int64_t pair_count(const AlgorithmArguments& arguments) {
  return (arguments.ranks - 1) * int64_t{has_root(arguments.collective) ? 1 : arguments.ranks};
}

}  // namespace plait
