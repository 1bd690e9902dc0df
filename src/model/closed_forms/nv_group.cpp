#include "model/closed_forms/nv_group.hpp"

#include <bit>
#include <cmath>

namespace plait::closed_forms {
namespace {

int ceiling_log2(int ranks) { return std::bit_width(static_cast<unsigned>(ranks - 1)); }
int floor_of_log2(int ranks) { return std::bit_width(static_cast<unsigned>(ranks)) - 1; }

double chunk_of_gpu(double bytes, const GroupedMachine& machine) {
  return bytes / machine.groups / machine.gpus_of_group;
}

}  // namespace

double naive_ring_seconds(double bytes, int ranks, const LinkCost& link, const ReduceCost& reduce) {
  return (ranks - 1) * (link.seconds(bytes) + reduce.seconds(bytes)) + (ranks - 1) * link.seconds(bytes);
}

double ring_reduce_scatter_seconds(double bytes, int ranks, const LinkCost& link, const ReduceCost& reduce) {
  return (ranks - 1) * (link.seconds(bytes / ranks) + reduce.seconds(bytes / ranks));
}

double ring_all_gather_seconds(double bytes, int ranks, const LinkCost& link) {
  return (ranks - 1) * link.seconds(bytes / ranks);
}

double ring_all_reduce_seconds(double bytes, int ranks, const LinkCost& link, const ReduceCost& reduce) {
  return ring_reduce_scatter_seconds(bytes, ranks, link, reduce) + ring_all_gather_seconds(bytes, ranks, link);
}

double two_rings_seconds(double bytes, int nodes, int gpus_of_node, const LinkCost& link, const ReduceCost& reduce) {
  return ring_all_reduce_seconds(bytes, gpus_of_node, link, reduce) +
         ring_all_reduce_seconds(bytes, nodes, link, reduce);
}

double scattered_rings_seconds(double bytes, int nodes, int gpus_of_node, const LinkCost& inside,
                               const LinkCost& between, const ReduceCost& reduce) {
  return ring_all_reduce_seconds(bytes, gpus_of_node, inside, reduce) +
         ring_all_reduce_seconds(bytes / gpus_of_node, nodes, between, reduce);
}

double double_tree_seconds_as_printed(double bytes, int ranks, const LinkCost& link, const ReduceCost& reduce) {
  const double levels = std::log2(ranks), chunk = bytes / (2.0 * ranks);
  return 2 * levels * link.seconds(chunk) + levels * reduce.seconds(chunk);
}

double double_tree_seconds(double bytes, int ranks, int parts, const LinkCost& link, const ReduceCost& reduce) {
  if (ranks == 1) return 0;
  const int depth = ceiling_log2(ranks);
  return (2 * depth + parts - 1) * link.seconds(2 * bytes / parts) + depth * reduce.seconds(bytes / (2.0 * parts));
}

double halving_seconds(double bytes, int ranks, const LinkCost& link, const ReduceCost& reduce) {
  return doubling_seconds(bytes, ranks, link) + reduce.seconds(bytes * (ranks - 1) / ranks);
}

double doubling_seconds(double bytes, int ranks, const LinkCost& link) {
  return std::log2(ranks) * link.start_seconds + bytes * (ranks - 1) / ranks / link.bandwidth;
}

double rabenseifner_seconds(double bytes, int ranks, const LinkCost& link, const ReduceCost& reduce) {
  return halving_seconds(bytes, ranks, link, reduce) + doubling_seconds(bytes, ranks, link);
}

double rabenseifner_seconds_as_printed(double bytes, int ranks, const LinkCost& link, const ReduceCost& reduce) {
  const double moved = bytes * ranks / (ranks - 1);
  return 2 * (std::log2(ranks) * link.start_seconds + moved / link.bandwidth) + reduce.seconds(moved);
}

double rabenseifner_seconds_by_steps(double bytes, int ranks, const LinkCost& link, const ReduceCost& reduce) {
  double seconds = 0, half = bytes;
  for (int step = floor_of_log2(ranks); step > 0; --step) {
    half /= 2;
    seconds += 2 * link.seconds(half) + reduce.seconds(half);
  }
  const bool folds = !std::has_single_bit(static_cast<unsigned>(ranks));
  return folds ? seconds + 2 * link.seconds(bytes) + reduce.seconds(bytes) : seconds;
}

double first_chunk_seconds(double bytes, const GroupedMachine& machine, const ReduceCost& reduce) {
  const double chunk = chunk_of_gpu(bytes, machine);
  return 2 * chunk / machine.nvlink_bandwidth + reduce.seconds(chunk);
}

double group_reduce_scatter_seconds(double bytes, const GroupedMachine& machine, const ReduceCost& reduce) {
  const double step = machine.between.seconds(bytes / machine.groups) + reduce.seconds(chunk_of_gpu(bytes, machine));
  return (machine.groups - 1) * step;
}

double group_all_gather_seconds(double bytes, const GroupedMachine& machine) {
  return (machine.groups - 1) * machine.between.seconds(bytes / machine.groups);
}

double group_ring_seconds(double bytes, const GroupedMachine& machine, const ReduceCost& reduce) {
  return first_chunk_seconds(bytes, machine, reduce) + group_reduce_scatter_seconds(bytes, machine, reduce) +
         group_all_gather_seconds(bytes, machine);
}

double group_ring_seconds_with_nvlink(double bytes, const GroupedMachine& machine, const ReduceCost& reduce) {
  const double chunk = chunk_of_gpu(bytes, machine);
  double seconds = group_ring_seconds(bytes, machine, reduce);
  if (machine.switch_bandwidth > 0) {  // (7b): its loads take the place of those of (7), which leaves one store
    seconds += (machine.gpus_of_group - 1) * chunk / machine.switch_bandwidth - chunk / machine.nvlink_bandwidth;
  }
  seconds += (machine.groups - 1) * 2 * chunk / machine.nvlink_bandwidth;  // (8b)
  return seconds + bytes / machine.groups / machine.nvlink_bandwidth;      // (9b)
}

}  // namespace plait::closed_forms
