// A level of a hierarchy, as data and as text: "4: ring", "node: flat(leaders=2)".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plait {

// The side that moves data within a node. Between nodes there are messages, whatever the direction.
enum class Direction : uint8_t {
  kLoad,   // the rank that needs data loads it
  kStore,  // the rank that has data stores it
  kBoth,   // most is stored, a part is loaded
};
const char* name(Direction direction);  // "load", "store", "both"

// How far a level reaches.
enum class Reach : uint8_t {
  kFactor,  // so many neighbours
  kGroup,   // an NVLink group, or a node where there are no groups
  kNode,    // a node
  kAll,     // all ranks
};

// One level: which units work together there, and how. The units of the first level are ranks; those of the next level
// are what this one joined. Ranks that have the same place in their units are the members of one list, which performs
// the level's algorithm (steps/levels.hpp).
struct Level {
  Reach reach = Reach::kFactor;
  int factor = 1;           // of kFactor
  std::string algorithm{};  // "ring"; see level_algorithms()
  int parts = 1;            // of a piece that are under way at once
  int radix = 2;            // of a tree: a k-nomial tree has radix k
  int leaders = 0;          // the members that combine a piece each; 0: all of them do
  // Whether the level makes an all-reduce: every member then has the whole sum. Else each has its piece of it.
  bool all_reduce = false;
  std::optional<Direction> direction{};  // empty: left open

  friend bool operator==(const Level&, const Level&) = default;
};

// Reads "4: ring(parts=2)". Throws kInvalidArgument with the expected form.
Level parse_level(std::string_view text);
// Writes text that parse_level() reads back.
std::string to_text(const Level& level);
// "4", "group", "node" or "all".
std::string reach_text(const Level& level);

}  // namespace plait
