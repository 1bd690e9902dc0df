// Rings within rings: the flat ring is one extreme, Rabenseifner the other (UEN-13, UEN-14).
#include <cstdint>
#include <vector>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/composition.hpp"

namespace plait {

Algorithm hierarchical_ring();

namespace {

// hierarchical_ring(4x2, parts=3) is short for hierarchical(4: ring(parts=3), 2: ring(parts=3)).
//
// p = p1 x p2 x … x ph. Rank r has the coordinates x1 = r mod p1, x2 = r / p1 mod p2, …: x1 counts neighbours, for
// instance the GPUs of a node. Level i has rings of the pi ranks that differ in xi only. 4 x 2 ranks, level by level:
//
//     reduce-scatter x1           all-reduce x2              all-gather x1
//     (0 1 2 3) (4 5 6 7)         (0 4) (1 5) (2 6) (3 7)    (0 1 2 3) (4 5 6 7)
//     pieces of M/4               pieces of M/8              pieces of M/4
//
// Each level works on the piece that the level before left to the rank (message sizes n, n/p1, n/(p1 p2), …: UEN-16).
// After the last reduce-scatter, rank (x1, …, xh) has the chunk x1 p/p1 + x2 p/(p1 p2) + … + xh. With factors 2 x 2,
// ranks 0, 2, 1, 3 hold chunks 0..3 (UEN-13). Reductions are left to the next level's first reduce. It reads all that
// arrived on the levels before along with the input, so that no sum is stored only to be loaded again.
//
// Steps: 2 sum(pi - 1). One factor: ring. All factors 2: Rabenseifner, 2 log2 p.
// Bytes sent per rank: 2 (p-1)/p M, of which 2 (pi - 1) M/(p1…pi) on level i.
// Scratch: 1 + 1/p1 + 1/(p1 p2) + … times M (< 2 M) in slots of M/p; with kZeroCopy a pi-th of each term less. If the
//   next rank of a ring is on another node, (pi - 2) M/(p1…pi) more for data that leaves, and one piece more above
//   level 1.
// When: several nodes, many ranks: long-distance links carry small pieces, and steps are few.
// parts: of a piece (UEN-08).

// The size of the equal blocks of neighbouring ranks that a partition consists of. 1 if it has none, or if all ranks
// are in one block.
int block_size(const std::vector<int>& part_of) {
  const int ranks = static_cast<int>(part_of.size());
  int size = 1;
  while (size < ranks && part_of[size] == part_of[0]) ++size;
  if (size == ranks || ranks % size != 0) return 1;
  for (int rank = 0; rank < ranks; ++rank) {
    const bool starts = rank % size == 0;
    if (rank > 0 && (part_of[rank] == part_of[rank - 1]) == starts) return 1;
  }
  return size;
}

std::vector<int> prime_factors(int number) {
  std::vector<int> factors;
  for (int prime = 2; number > 1; ++prime) {
    for (; number % prime == 0; number /= prime) factors.push_back(prime);
  }
  return factors;
}

// Ranks of a group x groups of a node x nodes, as far as groups and nodes are equal blocks of neighbouring ranks.
// Otherwise the prime factors of p, which take the fewest steps.
std::vector<int> derived_factors(const AlgorithmArguments& arguments) {
  std::vector<int> group_of(arguments.ranks, 0), nodes(arguments.ranks, 0);
  for (size_t group = 0; group < arguments.groups.size(); ++group) {
    for (const int rank : arguments.groups[group]) group_of[rank] = static_cast<int>(group);
  }
  for (int rank = 0; rank < arguments.ranks; ++rank) nodes[rank] = node_of(arguments, rank);
  const int in_group = arguments.groups.empty() ? 1 : block_size(group_of);
  const int in_node = arguments.node_of.empty() ? 1 : block_size(nodes);
  if (in_group == 1 && in_node == 1) return prime_factors(arguments.ranks);
  if (in_node % in_group != 0) return {in_group, arguments.ranks / in_group};
  return {in_group, in_node / in_group, arguments.ranks / in_node};
}

// Checks the factors, and returns them without ones.
std::vector<int> levels_of(const AlgorithmArguments& arguments) {
  const std::vector<int> given = arguments.factors.empty() ? derived_factors(arguments) : arguments.factors;
  std::vector<int> levels;
  int64_t product = 1;
  for (const int factor : given) {
    if (factor < 1) {
      refuse(hierarchical_ring(), "factor ", factor, " is not positive");
    }
    product *= factor;
    if (product > arguments.ranks) break;
    if (factor > 1) levels.push_back(factor);
  }
  if (product != arguments.ranks) {
    refuse(hierarchical_ring(), "the product of the factors has to be the number of", " ranks, ", arguments.ranks);
  }
  if (levels.empty()) levels.push_back(1);
  return levels;
}

std::vector<int> without_ones(std::vector<int> factors) {
  std::erase(factors, 1);
  return factors;
}

Plan make_hierarchical_ring(const AlgorithmArguments& given) {
  check_arguments(hierarchical_ring(), given);
  AlgorithmArguments arguments = given;
  arguments.factors = levels_of(given);
  std::vector<Level> levels;
  for (const int factor : arguments.factors) {
    levels.push_back({.factor = factor, .algorithm = "ring", .parts = arguments.parts});
  }
  return compose(hierarchical_ring(), arguments, levels, 1);
}

std::vector<AlgorithmArguments> hierarchical_ring_candidates(const AlgorithmArguments& machine) {
  std::vector<AlgorithmArguments> all;
  for (const auto& factors : {derived_factors(machine), prime_factors(machine.ranks)}) {
    AlgorithmArguments candidate = machine;
    candidate.factors = without_ones(factors);
    if (candidate.factors.size() < 2) continue;  // that is a ring
    if (!all.empty() && all[0].factors == candidate.factors) continue;
    for (const AlgorithmArguments& it : with_parts(candidate, {1, 2, 4})) all.push_back(it);
  }
  return all;
}

}  // namespace

Algorithm hierarchical_ring() {
  return {.name = "hierarchical_ring",
          .summary = "rings within rings by any factor list, from the flat ring to Rabenseifner",
          .source = "UEN-07, UEN-13..16, NVG-31, NVG-32",
          .collectives = {Collective::kAllReduce},
          .uses = {.factors = true, .parts = true, .zero_copy = true},
          .make = make_hierarchical_ring,
          .candidates = hierarchical_ring_candidates};
}

}  // namespace plait
