// What lies where while a plan is under way: how the phases of a collective hand over to each other.
#pragma once

#include <functional>
#include <vector>

#include "plan/builder.hpp"

namespace plait {

// Data that lies ready at a place. Scratch and host hold chunks from `first` on; input and output hold all.
struct Held {
  Place place;
  int first = 0;

  Place at(int chunk) const { return has_slots(place.buffer) ? slot_after(place, chunk - first) : place; }
};

// What of each rank has to be combined, in this order: reductions are left to the reduce that needs them.
using HeldByRank = std::vector<std::vector<Held>>;

inline std::vector<Place> places_at(const std::vector<Held>& held, int chunk) {
  std::vector<Place> places;
  for (const Held& it : held) places.push_back(it.at(chunk));
  return places;
}

// `places` but the only source, where it is one: it is there already.
std::vector<Place> beside(const std::vector<Place>& sources, std::vector<Place> places);

// What becomes of finished chunks.
struct Finish {
  // Where a finished chunk belongs at this rank: its own output first.
  std::function<std::vector<Held>(int rank)> places;
  // Called when a range was stored at all of them; may be empty.
  std::function<void(int rank, ChunkRange range)> stored = {};
};

// Every rank's input, and into every rank's output.
HeldByRank all_inputs(int ranks);
Finish to_outputs();

}  // namespace plait
