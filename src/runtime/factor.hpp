// A number that a rank's input is multiplied by before a sum: the product is rounded to the type of the call once, as
// integers wrap in it, and the sum of the products is then a sum like any other.
#pragma once

#include <array>
#include <cstddef>

#include "base/types.hpp"
#include "plan/plan.hpp"

namespace plait {

struct Factor {
  DataType type = DataType::kFloat32;   // that of the calls it is for
  std::array<std::byte, 8> value = {};  // as an element lies in memory; the rest is not looked at
  const void* on_device = nullptr;      // where not null, it is there instead, on the rank's GPU, which reads it when
                                        // the call runs

  friend bool operator==(const Factor&, const Factor&) = default;
};

// Whether a rank's products may lie in its output, since the sum fills all of that and is not looked for elsewhere;
// else they need memory of the library.
inline bool holds_products(Collective collective, int root, int rank) {
  return collective == Collective::kAllReduce || (collective == Collective::kReduce && root == rank);
}

}  // namespace plait
