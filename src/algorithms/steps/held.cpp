// Inputs and outputs as phases see them.
#include "algorithms/steps/held.hpp"

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

}  // namespace plait
