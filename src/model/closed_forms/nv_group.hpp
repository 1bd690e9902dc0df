// The times of all-reduces in NV-Group (NVG), "NV-Group: Link-Efficient Reduction for Distributed Deep Learning on
// Modern Dense GPU Systems". These are equations (1) to (10), each as printed or as corrected, and the forms that we
// put beside them.
//
// bytes: M, of the message; ranks: p; link: t_s and B; reduce: T_R. All results are seconds.
#pragma once

#include "model/closed_forms/costs.hpp"

namespace plait::closed_forms {

// Every rank passes on the whole message, reduced so far, p - 1 times, and the result as often (NVG-25).
double naive_ring_seconds(double bytes, int ranks, const LinkCost& link, const ReduceCost& reduce);

// Eq. (1): (p-1) (t_s + M/(pB) + T_R(M/p)) (NVG-26). Eq. (2): the same without T_R (NVG-27). Eq. (3): both (NVG-28).
double ring_reduce_scatter_seconds(double bytes, int ranks, const LinkCost& link, const ReduceCost& reduce);
double ring_all_gather_seconds(double bytes, int ranks, const LinkCost& link);
double ring_all_reduce_seconds(double bytes, int ranks, const LinkCost& link, const ReduceCost& reduce);

// Eq. (4), as printed (NVG-29): a ring all-reduce of the whole message in each node, then one between nodes.
double two_rings_seconds(double bytes, int nodes, int gpus_of_node, const LinkCost& link, const ReduceCost& reduce);
// Eq. (4b), ours: scatter first, so that each ring between nodes has M/N_G. `between` is what one GPU gets of its
// node's network.
double scattered_rings_seconds(double bytes, int nodes, int gpus_of_node, const LinkCost& inside,
                               const LinkCost& between, const ReduceCost& reduce);

// Eq. (5), as printed (NVG-30): 2 log2 p (t_s + M/(2pB)) + log2 p T_R(M/(2p)). It is below what p ports can move
// (D-NVG-03): p = 1536, 128 MiB and 12.5 GB/s give 0.074 ms, and 2(p-1)/p M/B is 21.5 ms.
double double_tree_seconds_as_printed(double bytes, int ranks, const LinkCost& link, const ReduceCost& reduce);
// Eq. (5b), ours: two trees of depth d = ceil(log2 p), half of the message each, in k parts; one port in each
// direction: (2d + k - 1) (t_s + 2M/(kB)) + d T_R(M/(2k)). Reductions of all parts but the first hide behind messages.
double double_tree_seconds(double bytes, int ranks, int parts, const LinkCost& link, const ReduceCost& reduce);

// Eq. (6), corrected (NVG-31, D-NVG-04): log2 p t_s + (p-1)/p M/B, and T_R((p-1)/p M) in the reduce-scatter.
double halving_seconds(double bytes, int ranks, const LinkCost& link, const ReduceCost& reduce);
double doubling_seconds(double bytes, int ranks, const LinkCost& link);
double rabenseifner_seconds(double bytes, int ranks, const LinkCost& link, const ReduceCost& reduce);
// Eq. (6), as printed: p/(p-1) in place of (p-1)/p. It has no value for one rank.
double rabenseifner_seconds_as_printed(double bytes, int ranks, const LinkCost& link, const ReduceCost& reduce);
// Eq. (6b), ours: a reduction for each halving, sum_{i=1..log2 p} T_R(M/2^i). Where p is no power of two, ranks beyond
// it fold in and out: 2 (t_s + M/B) + T_R(M) more.
double rabenseifner_seconds_by_steps(double bytes, int ranks, const LinkCost& link, const ReduceCost& reduce);

// The groups of GPUs that NVLink joins.
struct GroupedMachine {
  int groups = 1;               // N_nv
  int gpus_of_group = 1;        // NV_G
  LinkCost between;             // t_s and B, between groups
  double nvlink_bandwidth = 1;  // B_NV, bytes/s, of a GPU to one other GPU or to its CPU
  double switch_bandwidth = 0;  // B_port, bytes/s, of a GPU to its switch; 0: links join pairs of GPUs
};

// Eq. (7): the first chunk reduced into system memory, 2 M/(N_nv NV_G B_NV) + T_R(M/(N_nv NV_G)) (NVG-55).
double first_chunk_seconds(double bytes, const GroupedMachine& machine, const ReduceCost& reduce);
// Eq. (8): (N_nv-1) (t_s + M/(N_nv B) + T_R(M/(N_nv NV_G))) (NVG-57). Eq. (9): (N_nv-1) (t_s + M/(N_nv B)) (NVG-58).
double group_reduce_scatter_seconds(double bytes, const GroupedMachine& machine, const ReduceCost& reduce);
double group_all_gather_seconds(double bytes, const GroupedMachine& machine);
// Eq. (10): all three (NVG-59).
double group_ring_seconds(double bytes, const GroupedMachine& machine, const ReduceCost& reduce);
// Ours, (7b), (8b) and (9b). Behind a switch a GPU loads NV_G - 1 pieces through one port. Each step of (8) moves the
// chunk to system memory and back over NVLink. The last chunk of (9) still goes to the GPUs.
double group_ring_seconds_with_nvlink(double bytes, const GroupedMachine& machine, const ReduceCost& reduce);

}  // namespace plait::closed_forms
