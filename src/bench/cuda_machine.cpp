// The GPUs that this process sees.
#ifdef PLAIT_HAVE_CUDA
#include "bench/cuda_machine.hpp"

#include <array>

#include "base/error.hpp"
#include "runtime/cuda/driver/driver.hpp"

namespace plait {
namespace {

CudaDevice look_at(int device) {
  std::array<char, 32> bus_id{};
  check_cuda(cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), device), "asking for a bus address");
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, device), "asking for a GPU's name");
  return {properties.name, bus_id.data(), properties.major * 10 + properties.minor};
}

}  // namespace

CudaMachine look_at_cuda() {
  CudaMachine machine;
  check_cuda(cudaRuntimeGetVersion(&machine.runtime_version), "asking for the version of CUDA");
  if (cudaDriverGetVersion(&machine.driver_version) != cudaSuccess || machine.driver_version == 0) {
    cudaGetLastError();
    fail(ErrorCode::kInvalidArgument, "there is no NVIDIA driver here (nvidia-smi would show it)");
  }
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();
    fail(ErrorCode::kInvalidArgument, "CUDA finds no GPU here",
         error == cudaSuccess ? "" : join(" (", cudaGetErrorString(error), ")"),
         "; nvidia-smi -L lists them, CUDA_VISIBLE_DEVICES chooses among them");
  }
  for (int device = 0; device < count; ++device) machine.devices.push_back(look_at(device));
  return machine;
}

}  // namespace plait
#endif
