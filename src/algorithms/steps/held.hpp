// The places of data while a plan is under way, through which one phase of a collective passes its results to the next.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "plan/builder.hpp"

namespace plait {

// Data that is ready at a place. Scratch and host hold chunks from `first` on; input and output hold all.
struct Held {
  Place place;
  int first = 0;

  Place at(int chunk) const { return place_after(place, chunk - first); }
};

// The data of each rank that has to be combined, in this order: reductions are left to the reduce that needs them.
using HeldByRank = std::vector<std::vector<Held>>;

inline std::vector<Place> places_at(const std::vector<Held>& held, int chunk) {
  std::vector<Place> places;
  for (const Held& it : held) places.push_back(it.at(chunk));
  return places;
}

// Returns `places` without the source, if there is only one: the data is there already.
std::vector<Place> beside(const std::vector<Place>& sources, std::vector<Place> places);

// Tells what to do with finished chunks.
struct Finish {
  // The places of a finished chunk at this rank, its own output first.
  std::function<std::vector<Held>(int rank)> places;
  // Called when a range has been stored at all of them. May be empty.
  std::function<void(int rank, ChunkRange range)> stored = {};
};

// Takes every rank's input; stores into every rank's output.
HeldByRank all_inputs(int ranks);
Finish to_outputs();
// Does what each rank's own says.
Finish of_each(std::unordered_map<int, Finish> finishes);

}  // namespace plait
