// What a GPU's model says about it.
#pragma once

#include <string_view>

namespace plait {

struct GpuModel {
  std::string_view name;  // as a part of what the vendor calls it
  int processors;         // SMs
  int architecture;       // compute capability, such as 90 for 9.0
};

// The model of a GPU such as "NVIDIA V100"; null where it is not known.
const GpuModel* find_gpu_model(std::string_view vendors_name);

}  // namespace plait
