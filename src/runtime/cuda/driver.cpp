// Errors and entry points of CUDA.
#include "runtime/cuda/driver.hpp"

#include "base/error.hpp"

namespace plait {

void check_cuda(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // an error that was reported must not surprise the next caller
  const ErrorCode code = error == cudaErrorMemoryAllocation ? ErrorCode::kResources : ErrorCode::kSystem;
  fail(code, what, ": CUDA says ", cudaGetErrorName(error), ", ", cudaGetErrorString(error));
}

void check_driver(CUresult result, const std::string& what) {
  if (result == CUDA_SUCCESS) return;
  const ErrorCode code = result == CUDA_ERROR_OUT_OF_MEMORY ? ErrorCode::kResources : ErrorCode::kSystem;
  fail(code, what, ": the CUDA driver returned error ", static_cast<int>(result));
}

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

DeviceGuard::DeviceGuard(int device) {
  check_cuda(cudaGetDevice(&before_), "asking for the current device");
  if (before_ != device) check_cuda(cudaSetDevice(device), join("making device ", device, " current"));
}

DeviceGuard::~DeviceGuard() {
  if (before_ >= 0) cudaSetDevice(before_);
}

namespace {

template <class Function>
void find(const char* name, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &status);
  if (error != cudaSuccess || status != cudaDriverEntryPointSuccess || found == nullptr) {
    cudaGetLastError();
    fail(ErrorCode::kSystem, "this CUDA driver has no ", name, "; Plait needs that of CUDA 12.0 or newer");
  }
  function = reinterpret_cast<Function>(found);
}

}  // namespace

VirtualMemoryCalls VirtualMemoryCalls::load() {
  VirtualMemoryCalls calls;
  find("cuMemGetAllocationGranularity", calls.get_granularity);
  find("cuMemCreate", calls.create);
  find("cuMemRelease", calls.release);
  find("cuMemAddressReserve", calls.reserve);
  find("cuMemAddressFree", calls.free_address);
  find("cuMemMap", calls.map);
  find("cuMemUnmap", calls.unmap);
  find("cuMemSetAccess", calls.set_access);
  find("cuMemExportToShareableHandle", calls.export_handle);
  find("cuMemImportFromShareableHandle", calls.import_handle);
  return calls;
}

}  // namespace plait
