// Data that goes from one rank to another along ways: lists of ranks that pass it on, with no reduction on them.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/steps/carrier.hpp"

namespace plait {

// A way, and the chunks that go along it, from the input of its first rank to the output of its last.
struct Way {
  std::vector<int> ranks;
  int first_chunk = 0;
  int part_chunks = 1;
  PathKind kind = PathKind::kDirect;  // kHost: every rank stores in host memory next to it, where the next one reads
};

// Data goes by store, in arguments.parts parts that follow one another. Every link has a queue of its own at the rank
// that stores, and another where ways end, so that no link waits for another. So has the link to host memory.
class WaySteps {
 public:
  // The builder and the arguments must outlive it.
  WaySteps(PlanBuilder& builder, const AlgorithmArguments& arguments, std::vector<Way> ways);

  // The rank's own chunks, which go nowhere.
  void keep(int rank, int chunk, int chunks);
  void move_all();

 private:
  // The place of a part, and the signal after which it may be read there.
  struct Under {
    Place place;
    std::optional<SignalId> came = {};
  };

  // Moves a part along a way from the rank that has it at that hop to the next, or into the output at the end.
  void move(size_t way, int part, int hop);
  // The queue for the link to the next rank or, at the end, for the link from the one before.
  QueueId queue(const Way& way, int hop);
  QueueId queue(int rank, int neighbour, bool ends);

  PlanBuilder& builder_;
  const AlgorithmArguments& arguments_;
  const std::vector<Way> ways_;
  Carrier straight_, by_host_;
  std::map<std::tuple<int, int, bool>, QueueId> queues_;  // of [rank, neighbour or host, whether ways end here]
  std::map<std::pair<size_t, int>, Under> under_;         // way, part
};

}  // namespace plait
