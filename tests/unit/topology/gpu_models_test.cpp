#include "topology/gpu_models.hpp"

#include <gtest/gtest.h>

#include "topology/machines.hpp"

namespace plait {
namespace {

TEST(GpuModels, AreFoundWithinNames) {
  EXPECT_EQ(find_gpu_model("NVIDIA V100")->processors, 80);
  EXPECT_EQ(find_gpu_model("NVIDIA A100-SXM4-80GB")->processors, 108);
  EXPECT_EQ(find_gpu_model("NVIDIA A100-SXM4-80GB")->architecture, 80);
  EXPECT_EQ(find_gpu_model(""), nullptr);
  EXPECT_EQ(find_gpu_model("AMD MI300X"), nullptr);
}

TEST(GpuModels, OfTheMachinesHereAreKnown) {
  for (const std::string& name : machine_names()) {
    for (const Device& device : machine(name).devices) {
      if (device.kind != DeviceKind::kGpu || !device.model.starts_with("NVIDIA")) continue;
      EXPECT_NE(find_gpu_model(device.model), nullptr) << name << ": " << device.model;
    }
  }
}

}  // namespace
}  // namespace plait
