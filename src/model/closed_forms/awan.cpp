#include "model/closed_forms/awan.hpp"

#include <bit>
#include <cmath>
#include <cstdint>

namespace plait::closed_forms {
namespace {

// ceil(log_k p), exactly.
int levels_of_tree(int ranks, int radix) {
  int levels = 0;
  for (int64_t reached = 1; reached < ranks; reached *= radix) ++levels;
  return levels;
}

double twice_but_one(double bytes, int ranks, const LinkCost& link) {
  return 2 * bytes * (ranks - 1) / ranks / link.bandwidth;
}

}  // namespace

double tree_broadcast_seconds(double bytes, int ranks, int radix, const LinkCost& link) {
  return levels_of_tree(ranks, radix) * (radix - 1) * link.seconds(bytes);
}

double scatter_ring_broadcast_seconds(double bytes, int ranks, const LinkCost& link) {
  return (levels_of_tree(ranks, 2) + ranks - 1) * link.start_seconds + twice_but_one(bytes, ranks, link);
}

double scatter_doubling_broadcast_seconds(double bytes, int ranks, const LinkCost& link) {
  return 2 * levels_of_tree(ranks, 2) * link.start_seconds + twice_but_one(bytes, ranks, link);
}

double chain_broadcast_seconds(double bytes, int ranks, int parts, const LinkCost& link) {
  return ranks == 1 ? 0 : (ranks - 2 + parts) * link.seconds(bytes / parts);
}

double best_chain_parts(double bytes, int ranks, const LinkCost& link) {
  return std::sqrt((ranks - 2) * bytes / (link.bandwidth * link.start_seconds));
}

}  // namespace plait::closed_forms
