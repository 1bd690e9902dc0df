// What a GPU's model says about it.
#pragma once

#include <string_view>

namespace plait {

// The SMs of a GPU of this model ("NVIDIA V100"), as its vendor states them; 0 where the model is not known.
int processors_of(std::string_view model);

}  // namespace plait
