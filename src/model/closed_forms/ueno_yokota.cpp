#include "model/closed_forms/ueno_yokota.hpp"

#include <cmath>

namespace plait::closed_forms {
namespace {

double start_of_steps(int steps, const Start& start) { return 2 * start.parts * start.seconds * steps; }

}  // namespace

double message_seconds(double bytes, double start_seconds, double seconds_per_byte) {
  return start_seconds + bytes * seconds_per_byte;
}

double ring_bytes(double bytes, int ranks) { return 2.0 * (ranks - 1) * bytes / ranks; }

double rabenseifner_bytes(double bytes, int doublings) {
  double share = 0;
  for (int i = 1; i <= doublings; ++i) share += std::ldexp(1.0, -i);
  return 2 * bytes * share;
}

double layer_seconds(double bytes, const Layer& layer, const Start& start) {
  return start_of_steps(layer.ranks - 1, start) +
         2 * layer.seconds_per_byte * (bytes / layer.ranks) * (layer.ranks - 1);
}

double hierarchy_seconds(double bytes, std::span<const Layer> layers, const Start& start) {
  double seconds = 0;
  for (const Layer& layer : layers) {
    seconds += layer_seconds(bytes, layer, start);
    bytes /= layer.ranks;
  }
  return seconds;
}

double hierarchy_seconds_expanded(double bytes, std::span<const Layer> layers, const Start& start) {
  int steps = 0;
  double product = 1, per_byte = 0;
  for (const Layer& layer : layers) {
    steps += layer.ranks - 1;
    product *= layer.ranks;
    per_byte += layer.seconds_per_byte * (layer.ranks - 1) / product;
  }
  return start_of_steps(steps, start) + 2 * bytes * per_byte;
}

double grouped_hierarchy_seconds(double bytes, std::span<const Block> blocks, const Start& start) {
  int steps = 0;
  double product = 1, per_byte = 0;
  for (const Block& block : blocks) {
    double ranks = 1;
    for (const int factor : block.factors) {
      ranks *= factor;
      steps += factor - 1;
    }
    product *= ranks;
    per_byte += block.seconds_per_byte * (ranks - 1) / product;
  }
  return start_of_steps(steps, start) + 2 * bytes * per_byte;
}

double two_layer_seconds(double bytes, int nodes, double infiniband_seconds_per_byte, const Start& start) {
  return start_of_steps(2 + nodes, start) + 2 * bytes * infiniband_seconds_per_byte * (9.0 / 16 - 1 / (2.0 * nodes));
}

double flat_ring_seconds(double bytes, int nodes, double infiniband_seconds_per_byte, const Start& start) {
  return start_of_steps(kGpusOfNode * nodes - 1, start) +
         2 * bytes * infiniband_seconds_per_byte * (1.0 / 2 - 1 / (8.0 * nodes));
}

double flat_ring_seconds_one_hca(double bytes, int nodes, double infiniband_seconds_per_byte, const Start& start) {
  return flat_ring_seconds(bytes, nodes, 2 * infiniband_seconds_per_byte, start);
}

double bus_bandwidth(double bytes, int ranks, double seconds) { return ring_bytes(bytes, ranks) / seconds; }

}  // namespace plait::closed_forms
