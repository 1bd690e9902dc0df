// Facts about a GPU that follow from its model.
#pragma once

#include <string>
#include <string_view>

namespace plait {

struct GpuModel {
  std::string_view name;  // a part of the vendor's name
  int processors;         // SMs
  int architecture;       // compute capability, such as 90 for 9.0
};

// Finds the model of a GPU such as "NVIDIA H100 80GB HBM3": the first whose name occurs in that as separate words, in
// any case. Null if it is not known.
const GpuModel* find_gpu_model(std::string_view vendors_name);
// The same, but fails with kInvalidArgument and the known names.
const GpuModel& gpu_model_named(std::string_view name);

// A rank's GPU, as CUDA identifies it.
struct GpuIdentity {
  char bus_id[32] = {};  // "0000:17:00.0"
  char model[96] = {};
};

}  // namespace plait
