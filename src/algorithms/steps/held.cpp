// Inputs and outputs as phases see them.
#include "algorithms/steps/held.hpp"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

namespace plait {

std::vector<Place> beside(const std::vector<Place>& sources, std::vector<Place> places) {
  if (sources.size() == 1) std::erase(places, sources[0]);
  return places;
}

HeldByRank all_inputs(int ranks) {
  HeldByRank held(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) held[rank] = {{input_of(rank)}};
  return held;
}

Finish to_outputs() {
  return {[](int rank) { return std::vector<Held>{{output_of(rank)}}; }};
}

Finish of_each(std::unordered_map<int, Finish> finishes) {
  const bool has_hook =
      std::any_of(finishes.begin(), finishes.end(), [](const auto& it) { return static_cast<bool>(it.second.stored); });
  const auto shared = std::make_shared<const std::unordered_map<int, Finish>>(std::move(finishes));
  Finish all;
  all.places = [shared](int rank) { return shared->at(rank).places(rank); };
  if (!has_hook) return all;
  all.stored = [shared](int rank, ChunkRange range) {
    if (const Finish& finish = shared->at(rank); finish.stored) finish.stored(rank, range);
  };
  return all;
}

}  // namespace plait
