#include "api/c/device.hpp"

#include <cstdlib>

#include "api/c/result.hpp"
#ifdef PLAIT_HAVE_CUDA
#include "runtime/cuda/driver/driver.hpp"
#endif

namespace plait::c {
namespace {

constexpr size_t kAlignment = 256;

[[noreturn]] void refuse_to_do_without(const char* why) {
  refuse(plaitInvalidArgument, "config->device is PLAIT_DEVICE_CUDA, but no CUDA device can be used here: ", why,
         "; PLAIT_DEVICE_HOST works without one");
}

void* allocate_on_host(size_t bytes) {
  const size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = whole < bytes ? nullptr : std::aligned_alloc(kAlignment, whole);
  if (memory == nullptr) refuse(plaitSystemError, "the system gives no ", bytes, " bytes of memory");
  return memory;
}

}  // namespace

#ifdef PLAIT_HAVE_CUDA

namespace {

// Whether it worked. A failure is answered here, so that no later call of the runtime reports it again.
bool worked(cudaError_t error) {
  if (error != cudaSuccess) cudaGetLastError();
  return error == cudaSuccess;
}

void require_cuda(cudaError_t error, const char* what) {
  if (!worked(error)) refuse(plaitUnhandledCudaError, what, ": ", cudaGetErrorString(error));
}

}  // namespace

int device_count() {
  int count = 0;
  return worked(cudaGetDeviceCount(&count)) ? count : 0;
}

int current_device() {
  int device = 0;
  return device_count() > 0 && worked(cudaGetDevice(&device)) ? device : PLAIT_DEVICE_HOST;
}

int require_device() {
  int device = 0;
  try {
    check_cuda(cudaGetDeviceCount(&device), "looking for devices");
    check_cuda(cudaGetDevice(&device), "asking for the current device");
  } catch (const Error& error) {
    refuse_to_do_without(error.what());
  }
  return device;
}

void* allocate(size_t bytes) {
  if (current_device() == PLAIT_DEVICE_HOST) return allocate_on_host(bytes);
  const plait::RelaxedCapture aside;
  void* memory = nullptr;
  require_cuda(cudaMalloc(&memory, bytes), "cudaMalloc");
  return memory;
}

void release(void* memory) {
  cudaPointerAttributes attributes;
  const bool on_device = device_count() > 0 && worked(cudaPointerGetAttributes(&attributes, memory)) &&
                         attributes.type == cudaMemoryTypeDevice;
  if (on_device) {
    const plait::RelaxedCapture aside;
    require_cuda(cudaFree(memory), "cudaFree");
  } else {
    std::free(memory);
  }
}

#else

int device_count() { return 0; }
int current_device() { return PLAIT_DEVICE_HOST; }
int require_device() {
  refuse_to_do_without("this build of Plait has no CUDA; build it with nvcc, or with PLAIT_CUDA=wheel");
}
void* allocate(size_t bytes) { return allocate_on_host(bytes); }
void release(void* memory) { std::free(memory); }

#endif

}  // namespace plait::c
