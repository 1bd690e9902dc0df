// Tests which GPUs a library serves, by the names that CMake has for what it was compiled for.
#include "runtime/kernel_targets.hpp"

#include <gtest/gtest.h>

#include "support/outcome.hpp"

namespace plait {
namespace {

std::vector<int> served(const char* names) {
  const KernelTargets targets = KernelTargets::parse(names);
  std::vector<int> capabilities;
  for (const int capability : {60, 70, 75, 80, 86, 89, 90, 100, 103, 120}) {
    if (targets.serve(capability)) capabilities.push_back(capability);
  }
  return capabilities;
}

using Served = std::vector<int>;

TEST(KernelTargets, MachineCodeRunsOnLaterGpusOfTheSameFirstNumber) {
  EXPECT_EQ(served("80-real"), Served({80, 86, 89}));
  EXPECT_EQ(served("86-real,90-real"), Served({86, 89, 90}));
}

TEST(KernelTargets, PtxRunsOnAllLaterGpus) {
  EXPECT_EQ(served("75-virtual"), Served({75, 80, 86, 89, 90, 100, 103, 120}));
  EXPECT_EQ(served("90"), Served({90, 100, 103, 120}));
}

TEST(KernelTargets, SomeAreForOneGpuOrAFamily) {
  EXPECT_EQ(served("90a"), Served({90}));
  EXPECT_EQ(served("100f"), Served({100, 103}));
  EXPECT_EQ(served("100a-real,90a-virtual"), Served({90, 100}));
}

TEST(KernelTargets, WithoutCudaThereAreNone) {
  EXPECT_TRUE(KernelTargets::parse("").empty());
  EXPECT_EQ(served(""), Served());
  EXPECT_EQ(KernelTargets::parse("").text(), "none, since it was built without CUDA");
}

TEST(KernelTargets, SayWhatThereIs) {
  const auto text = [](const char* names) { return KernelTargets::parse(names).text(); };
  EXPECT_EQ(text("75-virtual,80-real,90-real,100-real,100-virtual"),
            "machine code for 8.0, 9.0 and 10.0, and PTX for all from 7.5 on");
  EXPECT_EQ(text("90a-real"), "machine code for 9.0a");
  EXPECT_EQ(text("75-virtual"), "PTX for all from 7.5 on");
  EXPECT_EQ(text("90a,80"), "machine code for 9.0a and 8.0, PTX for 9.0a, and PTX for all from 8.0 on");
}

TEST(KernelTargets, SayWhatToBuildForOtherGpus) {
  EXPECT_EQ(no_kernels_text("NVIDIA A10", 86, KernelTargets::parse("90-real")),
            "NVIDIA A10 has compute capability 8.6, for which Plait has no kernels (machine code for 9.0); build it "
            "for this GPU: make install CUDA_ARCHITECTURES=86-real");
  EXPECT_EQ(
      no_kernels_text("Tesla V100", 70, KernelTargets::parse("75-virtual")),
      "Tesla V100 has compute capability 7.0, for which Plait has no kernels (PTX for all from 7.5 on); it needs a "
      "GPU of 7.5 or later");
}

TEST(KernelTargets, RefuseWhatIsNone) {
  for (const char* wrong : {"native", "80-real,,90", "9", "90-fast", "90b"}) {
    const test::Outcome outcome = test::outcome_of([&](int) { KernelTargets::parse(wrong); }, 0);
    EXPECT_EQ(test::objection(outcome, ErrorCode::kInvalidArgument, {"is no CUDA architecture", "90-real"}), "")
        << wrong;
  }
  EXPECT_NO_THROW(KernelTargets::built());
}

}  // namespace
}  // namespace plait
