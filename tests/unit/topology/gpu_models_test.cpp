#include "topology/gpu_models.hpp"

#include <gtest/gtest.h>

#include "topology/machines.hpp"
#include "unit/topology/expect_error.hpp"

namespace plait {
namespace {

TEST(GpuModels, AreFoundWithinNames) {
  EXPECT_EQ(find_gpu_model("NVIDIA V100")->processors, 80);
  EXPECT_EQ(find_gpu_model("NVIDIA A100-SXM4-80GB")->processors, 108);
  EXPECT_EQ(find_gpu_model("NVIDIA A100-SXM4-80GB")->architecture, 80);
  EXPECT_EQ(find_gpu_model("h200")->processors, 132);
  EXPECT_EQ(find_gpu_model(""), nullptr);
  EXPECT_EQ(find_gpu_model("AMD MI300X"), nullptr);
}

TEST(GpuModels, AreNotFoundWithinOtherModels) {
  EXPECT_EQ(find_gpu_model("NVIDIA A10")->name, "A10");
  EXPECT_EQ(find_gpu_model("NVIDIA L40S")->name, "L40S");
  EXPECT_EQ(find_gpu_model("NVIDIA L4")->name, "L4");
  EXPECT_EQ(find_gpu_model("NVIDIA H20")->architecture, 90);
  EXPECT_EQ(find_gpu_model("NVIDIA GB200")->name, "GB200");
  EXPECT_EQ(find_gpu_model("NVIDIA B200")->name, "B200");
  EXPECT_EQ(find_gpu_model("NVIDIA H100 PCIe")->processors, 114);
  EXPECT_EQ(find_gpu_model("NVIDIA H100 80GB HBM3")->processors, 132);
  EXPECT_EQ(find_gpu_model("NVIDIA RTX 6000 Ada Generation")->architecture, 89);
  EXPECT_EQ(find_gpu_model("NVIDIA T400"), nullptr);
  EXPECT_EQ(find_gpu_model("NVIDIA XA100"), nullptr);
}

TEST(GpuModels, OfTheMachinesHereAreKnown) {
  for (const std::string& name : machine_names()) {
    for (const Device& device : machine(name).devices) {
      if (device.kind != DeviceKind::kGpu || !device.model.starts_with("NVIDIA")) continue;
      EXPECT_NE(find_gpu_model(device.model), nullptr) << name << ": " << device.model;
    }
  }
}

TEST(GpuModels, AnUnknownOneIsAnsweredWithTheKnown) {
  EXPECT_EQ(gpu_model_named("B200").architecture, 100);
  const std::string message = error_of([] { gpu_model_named("Z9000"); }, ErrorCode::kInvalidArgument);
  expect_contains(message, "no GPU model \"Z9000\" is known; there are: K80, P100");
}

}  // namespace
}  // namespace plait
