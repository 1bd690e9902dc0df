// An algorithm as users write it, and as plans are called: "ring", "flat(store, parts=2)".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/algorithm.hpp"

namespace plait {

// "hierarchical_ring(3x2, parts=4)", "flat(load, zero_copy, engine=copy)".
struct AlgorithmSpec {
  std::string name;
  std::optional<Direction> direction = {};  // empty: left open
  std::vector<int> factors = {};            // empty: left open
  int parts = 0;                            // 0: left open
  bool zero_copy = false;                   // Access::kZeroCopy
  std::optional<Engine> engine = {};

  friend bool operator==(const AlgorithmSpec&, const AlgorithmSpec&) = default;
};

// Checks that the algorithm is known, serves the collective and uses what is given. Throws kInvalidArgument with the
// expected form. Forms of release 0.1 are understood until the next one:
//
//     push, push(2)        flat(store), flat(store, parts=2)          one_shot_push    one_shot(store)
//     pull, pull(sm)       flat(load, zero_copy), … engine=sm)        chain_push(4)    chain(store, parts=4)
//     push_pull            flat(both)                                 ring(4)          ring(parts=4)
//     hierarchical_ring(4x2, pipeline 3)                              hierarchical_ring(4x2, parts=3)
AlgorithmSpec parse_spec(std::string_view text, Collective collective);

// parse_spec() reads it back.
std::string to_text(const AlgorithmSpec& spec);

// Everything that is not default, and the direction and the engine where the algorithm has a choice: so a plan's name
// says how it was made.
AlgorithmSpec spec_of(const Algorithm& algorithm, const AlgorithmArguments& arguments);

// `machine` with what is given.
AlgorithmArguments apply(const AlgorithmSpec& spec, AlgorithmArguments machine);

// The same, with what is left open as the algorithm likes it best on this machine: of its candidates the first that
// agrees with what is given.
AlgorithmArguments resolve(const AlgorithmSpec& spec, const AlgorithmArguments& machine);

}  // namespace plait
