#include "topology/gpu_models.hpp"

namespace plait {
namespace {

// NVIDIA's architecture whitepapers; of a K80 one of its two GPUs.
constexpr GpuModel kModels[] = {{"K80", 13, 37},   {"P100", 56, 60},  {"V100", 80, 70},
                                {"T4", 40, 75},    {"A100", 108, 80}, {"H100", 132, 90},
                                {"H200", 132, 90}, {"H800", 132, 90}, {"B200", 148, 100}};

}  // namespace

const GpuModel* find_gpu_model(std::string_view vendors_name) {
  for (const GpuModel& known : kModels) {
    if (vendors_name.find(known.name) != std::string_view::npos) return &known;
  }
  return nullptr;
}

}  // namespace plait
