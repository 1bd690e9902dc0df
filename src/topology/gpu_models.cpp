#include "topology/gpu_models.hpp"

namespace plait {
namespace {

struct GpuModel {
  std::string_view name;
  int processors;
};

// NVIDIA's architecture whitepapers; of a K80 one of its two GPUs.
constexpr GpuModel kModels[] = {{"K80", 13},   {"P100", 56},  {"V100", 80},  {"T4", 40},   {"A100", 108},
                                {"H100", 132}, {"H200", 132}, {"H800", 132}, {"B200", 148}};

}  // namespace

int processors_of(std::string_view model) {
  for (const GpuModel& known : kModels) {
    if (model.find(known.name) != std::string_view::npos) return known.processors;
  }
  return 0;
}

}  // namespace plait
