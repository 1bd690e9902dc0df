#include "topology/gpu_models.hpp"

#include <gtest/gtest.h>

#include "topology/machines.hpp"

namespace plait {
namespace {

TEST(GpuModels, AreFoundWithinNames) {
  EXPECT_EQ(processors_of("NVIDIA V100"), 80);
  EXPECT_EQ(processors_of("NVIDIA A100-SXM4-80GB"), 108);
  EXPECT_EQ(processors_of(""), 0);
  EXPECT_EQ(processors_of("AMD MI300X"), 0);
}

TEST(GpuModels, OfTheMachinesHereAreKnown) {
  for (const std::string& name : machine_names()) {
    for (const Device& device : machine(name).devices) {
      if (device.kind != DeviceKind::kGpu || !device.model.starts_with("NVIDIA")) continue;
      EXPECT_GT(processors_of(device.model), 0) << name << ": " << device.model;
    }
  }
}

}  // namespace
}  // namespace plait
