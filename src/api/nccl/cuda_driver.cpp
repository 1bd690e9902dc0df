// Asking libcuda.so.1.
#include "api/nccl/cuda_driver.hpp"

#include <dlfcn.h>

namespace plait::nccl {
namespace {

constexpr const char* kDriver = "libcuda.so.1";
// Numbers of the driver's binary interface.
constexpr int kSuccess = 0;
constexpr int kMulticastSupported = 132;
constexpr int kNotCapturing = 0;
// cudaStreamLegacy, as which NULL counts, too. It cannot be captured.
constexpr uintptr_t kLegacyStream = 1;

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

const CudaDriver& CudaDriver::of_this_process() {
  static const CudaDriver* const driver = new CudaDriver;
  return *driver;
}

// Made after NCCL has made a communicator: the driver is loaded by then, wherever there is a GPU.
CudaDriver::CudaDriver() {
  void* library = dlopen(kDriver, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr) return;
  find(library, "cuCtxGetDevice", current_device_);
  find(library, "cuDeviceGetName", name_);
  find(library, "cuDeviceGetAttribute", attribute_);
  find(library, "cuStreamIsCapturing", is_capturing_);
}

int CudaDriver::current_device() const {
  int device = -1;
  return current_device_ != nullptr && current_device_(&device) == kSuccess ? device : -1;
}

std::string CudaDriver::device_name(int device) const {
  char name[256] = "";
  const bool is_known = name_ != nullptr && name_(name, sizeof(name) - 1, device) == kSuccess;
  return is_known ? name : "";
}

bool CudaDriver::has_multicast(int device) const {
  int value = 0;
  const bool is_known = attribute_ != nullptr && attribute_(&value, kMulticastSupported, device) == kSuccess;
  return !is_known || value != 0;
}

bool CudaDriver::is_capturing(cudaStream_t stream) const {
  if (reinterpret_cast<uintptr_t>(stream) <= kLegacyStream) return false;
  int status = kNotCapturing;
  return is_capturing_ == nullptr || is_capturing_(stream, &status) != kSuccess || status != kNotCapturing;
}

}  // namespace plait::nccl
