// Asks CUDA for an image of a kernel, and explains the error if there is none.
#include "runtime/cuda/driver/served_gpu.hpp"

#include "runtime/cuda/driver/driver.hpp"
#include "runtime/kernel_targets.hpp"

namespace plait {
namespace {

// The driver is too old to compile the library's PTX; a newer one could.
[[noreturn]] void fail_old_driver(const std::string& gpu, int capability) {
  int driver = 0, runtime = 0;
  check_cuda(cudaDriverGetVersion(&driver), "asking for the version of the driver");
  check_cuda(cudaRuntimeGetVersion(&runtime), "asking for the version of CUDA");
  const auto version = [](int number) { return join(number / 1000, ".", number % 1000 / 10); };
  fail(ErrorCode::kSystem, "for ", gpu, " Plait has PTX of CUDA ", version(runtime),
       ", but this driver compiles PTX of CUDA ", version(driver),
       " at most; install a newer driver, or build Plait for this GPU: make install CUDA_ARCHITECTURES=", capability,
       "-real");
}

}  // namespace

void check_is_served(const void* kernel) {
  cudaFuncAttributes attributes;
  const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  if (error == cudaSuccess) return;
  if (error != cudaErrorNoKernelImageForDevice && error != cudaErrorUnsupportedPtxVersion) {
    fail_cuda(error, "loading a kernel");
  }
  cudaGetLastError();
  int device = 0;
  cudaDeviceProp gpu;
  check_cuda(cudaGetDevice(&device), "asking for the current device");
  check_cuda(cudaGetDeviceProperties(&gpu, device), "reading the properties of device ", device);
  const int capability = gpu.major * 10 + gpu.minor;
  if (error == cudaErrorUnsupportedPtxVersion) fail_old_driver(gpu.name, capability);
  fail(ErrorCode::kSystem, no_kernels_text(gpu.name, capability, KernelTargets::built()));
}

}  // namespace plait
