// A number that a rank's input is multiplied by before a sum (a pre-multiplied sum). Products are rounded to the type
// of the call once, integers wrap, and the sum of the products is a sum like any other.
#pragma once

#include <array>
#include <cstddef>

#include "base/types.hpp"
#include "plan/plan.hpp"

namespace plait {

struct Scalar {
  DataType type = DataType::kFloat32;   // of the calls that it is for
  std::array<std::byte, 8> value = {};  // as an element lies in memory, the rest zeros; or …
  const void* on_device = nullptr;      // … where the rank's GPU reads it when the call runs
};

// Whether a rank's products may lie in its output: it is as long as the input, and the sum overwrites all of it. Else
// they need memory of the library.
inline bool holds_products(Collective collective, int root, int rank) {
  return collective == Collective::kAllReduce || (collective == Collective::kReduce && root == rank);
}

}  // namespace plait
