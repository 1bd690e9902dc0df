// If the library has no kernels for a GPU, the error names that GPU, those with kernels, and what to do.
#include "runtime/cuda/driver/served_gpu.hpp"

#include <gtest/gtest.h>

#include "support/fake_cuda.hpp"
#include "support/outcome.hpp"

namespace plait {
namespace {

using test::FakeCuda;

constexpr int kKernel = 0;

std::string objection(const FakeCuda::Gpu& gpu, const std::vector<std::string>& parts) {
  FakeCuda::get().set_gpu(gpu);
  return test::objection(test::outcome_of([](int) { check_is_served(&kKernel); }, 0), ErrorCode::kSystem, parts);
}

TEST(ServedGpu, HasAnImage) {
  FakeCuda::get().reset();
  EXPECT_NO_THROW(check_is_served(&kKernel));
}

TEST(ServedGpu, ErrorsNameTheGpuAndWhatToBuild) {
  EXPECT_EQ(objection({"Tesla V100", 7, 0, cudaErrorNoKernelImageForDevice},
                      {"Tesla V100 has compute capability 7.0, for which Plait has no kernels (", "7.5 or later"}),
            "");
  EXPECT_EQ(objection({"NVIDIA A10", 8, 6, cudaErrorNoKernelImageForDevice},
                      {"NVIDIA A10 has compute capability 8.6", "make install CUDA_ARCHITECTURES=86-real"}),
            "");
}

TEST(ServedGpu, ErrorsNameADriverThatIsTooOldForThePtx) {
  EXPECT_EQ(objection({"NVIDIA A10", 8, 6, cudaErrorUnsupportedPtxVersion},
                      {"for NVIDIA A10 Plait has PTX of CUDA 13.0",
                       "this driver compiles PTX of CUDA 12.4 at most; install a newer driver",
                       "CUDA_ARCHITECTURES=86-real"}),
            "");
}

TEST(ServedGpu, OtherErrorsAreThoseOfCuda) {
  EXPECT_EQ(objection({"a GPU", 9, 0, cudaErrorNotSupported}, {"loading a kernel: CUDA says"}), "");
}

}  // namespace
}  // namespace plait
