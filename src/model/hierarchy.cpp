#include "model/hierarchy.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "model/closed_forms/ueno_yokota.hpp"
#include "model/units.hpp"

namespace plait {
namespace {

// The time of a step for a message of so many bytes, seconds for each byte. Memory may be narrower than links.
double seconds_per_byte(double step_bytes, const RingLayer& layer, const Costs& costs) {
  const RingCosts& ring = costs.rings.of(layer.medium);
  double per_byte = 1 / (layer.gbps * ring.efficiency * kBytesPerGb);
  if (step_bytes > 0) per_byte *= 1 + ring.half_bytes / step_bytes;
  if (costs.memory_gbps > 0) per_byte = std::max(per_byte, 1 / (costs.memory_gbps * kBytesPerGb));
  return per_byte;
}

}  // namespace

double ring_layer_seconds(double bytes, const RingLayer& layer, const Costs& costs) {
  if (layer.length == 1) return 0;
  const RingCosts& ring = costs.rings.of(layer.medium);
  const double step_bytes = bytes / layer.length;
  const double beta = seconds_per_byte(step_bytes, layer, costs);
  const double overlapped =
      closed_forms::layer_seconds(bytes, {layer.length, beta}, {ring.step_seconds, costs.rings.parts});
  return 2 * costs.launch_seconds + overlapped + 2 * ring.exposed_steps * beta * step_bytes;
}

void HierarchyModel::check_bytes(double bytes) {
  if (bytes >= 0 && std::isfinite(bytes)) return;
  fail(ErrorCode::kInvalidArgument, "a message of ", bytes, " bytes; its size is a number from 0 on");
}

std::vector<LayerTime> HierarchyModel::layer_times(std::span<const int> factors, double bytes) {
  check_bytes(bytes);
  std::vector<LayerTime> times;
  int stride = 1;
  for (const int factor : factors) {
    const RingLayer& layer = layers_.layer(stride, factor);
    times.push_back({layer, bytes / stride, layer_seconds(stride, factor, bytes)});
    stride *= factor;
  }
  return times;
}

double HierarchyModel::seconds(std::span<const int> factors, double bytes) {
  check_bytes(bytes);
  double seconds = 0;
  int stride = 1;
  for (const int factor : factors) {
    seconds += layer_seconds(stride, factor, bytes);
    stride *= factor;
  }
  return seconds;
}

}  // namespace plait
