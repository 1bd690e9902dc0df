// What a GPU's model says about it.
#pragma once

#include <string>
#include <string_view>

namespace plait {

struct GpuModel {
  std::string_view name;  // as a part of what the vendor calls it
  int processors;         // SMs
  int architecture;       // compute capability, such as 90 for 9.0
};

// The model of a GPU such as "NVIDIA H100 80GB HBM3": the first whose name is in that as words of its own, in letters
// of any case. Null where it is not known.
const GpuModel* find_gpu_model(std::string_view vendors_name);
// The same; fails with kInvalidArgument and the names that are known.
const GpuModel& gpu_model_named(std::string_view name);

// A rank's GPU, as CUDA knows it.
struct GpuIdentity {
  char bus_id[32] = {};  // "0000:17:00.0"
  char model[96] = {};
};

}  // namespace plait
