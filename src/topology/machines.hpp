// The described machines of machines/*.json, which are part of the library.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topology/topology.hpp"

namespace plait {

// "abci", "cedar", "dgx1-p100", …, sorted.
std::vector<std::string> machine_names();

// Returns `nodes` nodes of a described machine; see replicate(). An unknown name fails with kInvalidArgument, the
// nearest name and the list of all.
Topology machine(std::string_view name, int nodes = 1);

namespace internal {
struct MachineText {
  const char* name;
  const char* text;
};
// The function is written by cmake/EmbedTexts.cmake. Sorted by name.
std::span<const MachineText> machine_texts();
}  // namespace internal

}  // namespace plait
