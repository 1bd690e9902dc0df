// Rabenseifner: recursive halving, then recursive doubling (NVG-31, UEN-07).
#include <algorithm>
#include <utility>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/halving.hpp"
#include "base/figures.hpp"

namespace plait {

Algorithm rabenseifner();

namespace {

// A reduce-scatter by recursive halving, then an all-gather by recursive doubling, or one of the two. Rank 0 of eight,
// and how much of the message it exchanges with whom:
//
//                   reduce-scatter         all-gather
//     far first     r4    r2    r1         r1    r2    r4        NVG-31; pieces lie in the order of the ranks
//     near first    r1    r2    r4         r4    r2    r1        UEN-07; in the order of reversed bits
//                   M/2   M/4   M/8        M/8   M/4   M/2
//
// In general there are c = f1 x f2 x … pieces. Neighbouring ranks differ in the first factor, as in hierarchical_ring,
// and a group of f exchanges directly. With 4 x 2 x 2 it is 4-Rabenseifner (UEN-44), with 4 x 4 x … radix 4. Without
// factors there are as many twos as p allows. The p - c ranks that remain give all that they have to a neighbour first,
// and get the result from it.
//
// Steps: all_reduce 2 h for h factors, and 2 more if ranks remain. The others h, and up to 2 more. Zero-copy, an
//   all_gather takes one more, in which ranks say that they were called.
// Bytes sent: all_reduce 2 (c-1)/c M by every rank of the c, and M to and from each that remains. reduce_scatter and
//   all_gather (c-1)/c of p blocks, and p blocks to or from each that remains.
// Scratch: what a rank gets by store: all_reduce 2 (c-1)/c M, and M more with a neighbour that remains; zero-copy
//   without the half of it that is finished. As much as it sends if it goes to another node.
// When: medium messages over many ranks. Near first puts the large halves on near links: use it for nodes of a power of
//   two of ranks. Far first has the fewest operations in a reduce_scatter, whose blocks lie in the order of the ranks.
std::vector<int> factors_of(const AlgorithmArguments& arguments) {
  const std::vector<int> factors = core_factors(arguments.factors, arguments.ranks);
  if (factors.empty() && arguments.ranks > 1) {
    refuse(rabenseifner(), "the product of the factors has to be more than half of the ",
           counted(arguments.ranks, "rank"), ", and not more than all of them");
  }
  return factors;
}

Plan make_rabenseifner(const AlgorithmArguments& arguments) {
  check_arguments(rabenseifner(), arguments);
  const Collective collective = arguments.collective;
  HalvingSteps::Shape shape;
  shape.factors = factors_of(arguments);
  shape.order = arguments.order;
  shape.extras_have_pieces = has_rank_blocks(collective);
  shape.stores_to_peers = arguments.access == Access::kZeroCopy;
  if (has_rank_blocks(collective) && arguments.order == Order::kNearFirst) {
    refuse(rabenseifner(), "the blocks of a ", name(collective), " lie in the order of the ranks, so it begins ",
           name(Order::kFarFirst), ", not ", name(Order::kNearFirst));
  }
  int64_t core = 1;
  for (const int factor : shape.factors) core *= factor;
  PlanBuilder builder = start_plan(rabenseifner(), arguments, has_rank_blocks(collective) ? 1 : core);
  Carrier carrier(builder, arguments.node_of);
  shape.queues = add_queues(builder, arguments);
  const bool tells_first = collective == Collective::kAllGather && shape.stores_to_peers;
  HalvingSteps steps(builder, carrier, std::move(shape));
  HeldByRank held = all_inputs(arguments.ranks);
  if (tells_first) steps.call_peers();
  if (collective != Collective::kAllGather) steps.reduce_scatter(held);
  if (collective != Collective::kReduceScatter) {
    steps.all_gather(held, to_outputs());
  } else {
    steps.store(held, to_outputs());
  }
  return builder.finish();
}

// The prime factors, if none is large: then no rank remains.
std::vector<int> small_primes(int number) {
  std::vector<int> factors;
  for (const int prime : {2, 3, 5, 7}) {
    for (; number % prime == 0; number /= prime) factors.push_back(prime);
  }
  return number == 1 ? factors : std::vector<int>{};
}

std::vector<AlgorithmArguments> rabenseifner_candidates(const AlgorithmArguments& machine) {
  if (machine.ranks < 4) return {};  // it is a ring
  std::vector<std::vector<int>> lists = {{}};
  const std::vector<int> twos = core_factors({}, machine.ranks), primes = small_primes(machine.ranks);
  if (!primes.empty() && primes.back() > 2) lists.push_back(primes);
  if (twos.size() > 2) {
    lists.emplace_back(twos.begin() + 1, twos.end());
    lists.back()[0] = 4;
  }
  std::vector<AlgorithmArguments> all;
  for (const auto& factors : lists) {
    AlgorithmArguments candidate = machine;
    candidate.factors = factors;
    for (const Order order : {Order::kNearFirst, Order::kFarFirst}) {
      if (order == Order::kNearFirst && has_rank_blocks(machine.collective)) continue;
      candidate.order = order;
      all.push_back(with_parts(candidate, {1})[0]);
    }
  }
  if (on_one_node(machine))
    std::stable_partition(all.begin(), all.end(),
                          [](const AlgorithmArguments& it) { return it.order == Order::kFarFirst; });
  return all;
}

}  // namespace

Algorithm rabenseifner() {
  return {.name = "rabenseifner",
          .summary = "partners halve the message, then double it; least bytes, 2 log2 p steps",
          .source = "NVG-31, UEN-07, UEN-13, UEN-44",
          .collectives = {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather},
          .uses = {.factors = true, .zero_copy = true, .order = true},
          .make = make_rabenseifner,
          .candidates = rabenseifner_candidates};
}

}  // namespace plait
