// A message in pieces, one for each rank.
#include "algorithms/steps/scattered.hpp"

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/tree_blocks.hpp"
#include "algorithms/steps/units.hpp"

namespace plait {

HeldByRank scatter_message(PlanBuilder& builder, Carrier& carrier, const Algorithm& algorithm,
                           const AlgorithmArguments& arguments, const std::vector<QueueId>& queues) {
  const std::vector<Level> levels = {{.reach = Reach::kNode, .algorithm = "binomial"},
                                     {.reach = Reach::kAll, .algorithm = "binomial"}};
  TreeShape shape;
  shape.queues = {queues};
  shape.direction = arguments.direction;
  scatter_along(builder, carrier, tree_over(algorithm, arguments, levels), shape);
  HeldByRank held;
  for (int rank = 0; rank < arguments.ranks; ++rank) held.push_back({{output_of(rank)}});
  return held;
}

std::vector<AlgorithmArguments> scattered_candidates(const AlgorithmArguments& machine) {
  if (machine.ranks < 4) return {};
  std::vector<AlgorithmArguments> all;
  for (const bool second : {false, true}) {
    all.push_back(with_parts(machine, {1})[0]);
    all.back().direction = on_gpus(machine) != second ? Direction::kStore : Direction::kLoad;
  }
  return all;
}

}  // namespace plait
