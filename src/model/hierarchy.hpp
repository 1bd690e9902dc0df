// The time of a hierarchical ring all-reduce on a machine, by closed form (UEN-17, UEN-18). It includes what deep
// hierarchies pay in reality: launches of each layer, and the bandwidth of small messages (UEN-41, UEN-52).
#pragma once

#include <span>
#include <vector>

#include "model/profile.hpp"
#include "model/ring_layers.hpp"

namespace plait {

// The reduce-scatter and all-gather of a layer: of its message of `bytes`, n / (p1 … p(i-1)). With costs that have no
// launch, no half_bytes and no exposed steps this is T_{i,all}(n) of the paper.
double ring_layer_seconds(double bytes, const RingLayer& layer, const Costs& costs);

struct LayerTime {
  RingLayer layer;
  double bytes = 0;    // of its message
  double seconds = 0;  // of both passes
};

class HierarchyModel {
 public:
  // Topology and placement must outlive it and not change. Throws as RingLayers does.
  HierarchyModel(const Topology& topology, const Placement& placement, const Costs& costs)
      : layers_(topology, placement), costs_(costs) {}

  int ranks() const { return layers_.ranks(); }
  const Costs& costs() const { return costs_; }
  // Throws kInvalidArgument unless the bytes are a number from 0 on.
  static void check_bytes(double bytes);
  double layer_seconds(int stride, int length, double bytes) {
    return ring_layer_seconds(bytes / stride, layers_.layer(stride, length), costs_);
  }
  // For a message of so many bytes. Throws kInvalidArgument where the product of the factors does not divide the ranks,
  // and what check_bytes() throws.
  std::vector<LayerTime> layer_times(std::span<const int> factors, double bytes);
  double seconds(std::span<const int> factors, double bytes);

 private:
  RingLayers layers_;
  const Costs costs_;
};

}  // namespace plait
