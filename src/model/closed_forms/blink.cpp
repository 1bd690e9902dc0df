#include "model/closed_forms/blink.hpp"

namespace plait::closed_forms {

double two_rings_broadcast_seconds(double bytes, double bandwidth) { return bytes / (2 * bandwidth); }

double three_trees_broadcast_seconds(double bytes, double bandwidth) { return bytes / (3 * bandwidth); }

double rings_all_reduce_seconds(double bytes, int ranks, int rings, double bandwidth) {
  return bytes * (ranks - 1) / ranks / (rings * bandwidth);
}

double clique_all_reduce_seconds(double bytes, int ranks, double bandwidth) {
  return ranks == 1 ? 0 : 2 * bytes / (ranks * bandwidth);
}

double packed_trees_seconds(double bytes, double trees, double bandwidth) { return bytes / (trees * bandwidth); }

}  // namespace plait::closed_forms
