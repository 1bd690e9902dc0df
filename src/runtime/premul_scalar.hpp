// The scalar of a pre-multiplied sum: each rank's input is multiplied by it before the sum. Products are rounded to the
// type of the call once, and integers wrap. The products are then summed like any other input.
#pragma once

#include <array>
#include <cstddef>

#include "base/types.hpp"
#include "plan/plan.hpp"

namespace plait {

struct Scalar {
  DataType type = DataType::kFloat32;   // the type of the calls that it is for
  std::array<std::byte, 8> value = {};  // laid out as an element in memory, followed by zeros; or …
  const void* on_device = nullptr;      // … the address from which the rank's GPU reads it when the call runs
};

// Whether a rank may store its products in its output: the output is as long as the input, and the sum overwrites all
// of it. Otherwise the products need memory of the library.
inline bool holds_products(Collective collective, int root, int rank) {
  return collective == Collective::kAllReduce || (collective == Collective::kReduce && root == rank);
}

}  // namespace plait
