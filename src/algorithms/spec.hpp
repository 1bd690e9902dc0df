// An algorithm as users write it, and as plans are named: "ring", "flat(store, parts=2)".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/algorithm.hpp"

namespace plait {

// "rabenseifner(4x2x2, near_first)", "hierarchical(node: flat, all: ring)", "flat(load, zero_copy, engine=copy)",
// "multi_path(direct: 80, host: 20, parts=4)".
struct AlgorithmSpec {
  std::string name;
  std::optional<Direction> direction = {};  // empty: not given
  std::vector<int> factors = {};            // empty: not given
  std::vector<Level> levels = {};           // empty: not given
  std::optional<Order> order = {};
  int radix = 0;                       // 0: not given
  int parts = 0;                       // 0: not given
  int count = 0;                       // of rings or trees; 0: not given
  std::vector<PathShare> shares = {};  // empty: not given
  bool zero_copy = false;              // Access::kZeroCopy
  std::optional<Engine> engine = {};

  friend bool operator==(const AlgorithmSpec&, const AlgorithmSpec&) = default;
};

// Checks that the algorithm is known, serves the collective and uses all that is given. Throws kInvalidArgument with
// the expected form. Forms of release 0.1 are understood until the next release:
//
//     push, push(2)        flat(store), flat(store, parts=2)          one_shot_push    one_shot(store)
//     pull, pull(sm)       flat(load, zero_copy), … engine=sm)        chain_push(4)    chain(store, parts=4)
//     push_pull            flat(both)                                 ring(4)          ring(parts=4)
//     hierarchical_ring(4x2, pipeline 3)                              hierarchical_ring(4x2, parts=3)
AlgorithmSpec parse_spec(std::string_view text, Collective collective);

// Writes text that parse_spec() reads back.
std::string to_text(const AlgorithmSpec& spec);

// Everything that differs from its default, and the direction, the order and the engine if the algorithm has a choice:
// so a plan's name says how it was made.
AlgorithmSpec spec_of(const Algorithm& algorithm, const AlgorithmArguments& arguments);

// Returns `machine` with what `spec` gives.
AlgorithmArguments apply(const AlgorithmSpec& spec, AlgorithmArguments machine);

// The same, and what is not given is as the algorithm likes it best on this machine: it comes from the first candidate
// that agrees with what is given.
AlgorithmArguments resolve(const AlgorithmSpec& spec, const AlgorithmArguments& machine);

}  // namespace plait
