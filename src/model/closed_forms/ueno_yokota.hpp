// Ueno and Yokota, "Exhaustive Study of Hierarchical AllReduce Patterns for Large Messages Between GPUs" (UEN): the
// time of a hierarchical ring all-reduce, in their notation.
//
// n: bytes of the message; p: processes; p_i: factor of layer i; alpha: seconds that a message takes to start;
// beta: seconds for each byte (their B_i is an inverse bandwidth too); s: parts that are under way at once (UEN-08).
#pragma once

#include <span>
#include <vector>

namespace plait::closed_forms {

// T(n) = alpha + n beta, section III.A.4 (UEN-10).
double message_seconds(double bytes, double start_seconds, double seconds_per_byte);

// Bytes that each process sends. Ring: 2 (p - 1) n / p (UEN-06). Rabenseifner: 2 n sum_{i=1..k} 2^(-i), p = 2^k
// (UEN-07), which is as many.
double ring_bytes(double bytes, int ranks);
double rabenseifner_bytes(double bytes, int doublings);

// A layer of a hierarchy: rings of so many processes over links of one bandwidth.
struct Layer {
  int ranks = 1;                // p_i
  double seconds_per_byte = 0;  // beta_i
};

// The common part of all layers.
struct Start {
  double seconds = 0;  // alpha
  int parts = 1;       // s
};

// T_{i,all}(n) = 2 s alpha (p_i - 1) + 2 beta_i (n / p_i) (p_i - 1), section IV.C (UEN-17): reduce-scatter and
// all-gather of one layer whose message has `bytes`.
double layer_seconds(double bytes, const Layer& layer, const Start& start);

// T(n) = sum_i T_{i,all}(n / prod_{j<i} p_j), section IV.C (UEN-18).
double hierarchy_seconds(double bytes, std::span<const Layer> layers, const Start& start);
// The same, written out: 2 s alpha (sum p_i - h) + 2 n sum_i beta_i (p_i - 1) / prod_{j<=i} p_j.
double hierarchy_seconds_expanded(double bytes, std::span<const Layer> layers, const Start& start);

// Layers with one bandwidth between them: P_i = prod of their factors.
struct Block {
  std::vector<int> factors;     // p_{a_i} … p_{b_i}
  double seconds_per_byte = 0;  // B_i
};
// T(n) = 2 s alpha (sum p_j - h) + 2 n sum_i B_i (P_i - 1) / prod_{k<=i} P_k, section IV.C (UEN-19). The split of a
// layer of one bandwidth changes the term with alpha only (UEN-20).
double grouped_hierarchy_seconds(double bytes, std::span<const Block> blocks, const Start& start);

// ABCI, section IV.D: nodes of four GPUs that NVLink joins, two InfiniBand HCAs, of which each of the four rings
// between nodes has half. Six rings over four GPUs, two a link, get twelve times the bandwidth between nodes (UEN-22).
inline constexpr int kGpusOfNode = 4;
inline constexpr double kNvlinkOverInfiniband = 12;
// T_hier(n) = 2 s alpha (2 + P) + 2 n B_IB (9/16 - 1/(2P)), eq. (1) (UEN-21, UEN-23). P: nodes.
double two_layer_seconds(double bytes, int nodes, double infiniband_seconds_per_byte, const Start& start);
// T_ring(n) = 2 s alpha (4P - 1) + 2 n B_IB (1/2 - 1/(8P)), eq. (2) (UEN-24): a ring that uses both HCAs.
double flat_ring_seconds(double bytes, int nodes, double infiniband_seconds_per_byte, const Start& start);
// Ours, beside eq. (2): with one HCA in use, as was measured for 8 to 256 processes (UEN-34, doubt D-UEN-03).
double flat_ring_seconds_one_hca(double bytes, int nodes, double infiniband_seconds_per_byte, const Start& start);

// Bus bandwidth of one layer, bytes/s: 2 n_i (p_i - 1) / p_i / T_i (UEN-38). Our definition: it gives the 1.39x of the
// paper's text from its Table II.
double bus_bandwidth(double bytes, int ranks, double seconds);

// The paper's constants for ABCI, section V.B.1 (UEN-32).
inline constexpr double kAbciStartSeconds = 4.80e-6;           // alpha
inline constexpr double kAbciInfinibandBandwidth = 9301.19e6;  // 1 / B_IB, bytes/s
inline constexpr int kAbciParts = 2;                           // s, from NCCL's code
inline constexpr double kAbciBytes = 134217728;                // n: 128 MiB of bytes, not of elements (D-UEN-02)

}  // namespace plait::closed_forms
