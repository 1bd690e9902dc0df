// CUDA's runtime and driver: errors, the current device, and the entry points of the driver that the runtime does not
// offer. Nothing is linked to the driver's library, so Plait loads where there is none.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/error.hpp"

namespace plait {

[[noreturn]] void fail_cuda(cudaError_t error, const std::string& what);
[[noreturn]] void fail_driver(CUresult result, const std::string& what);

// Throws kSystem (kResources where memory is short) with CUDA's own words, and what to do where that is known. `what`
// was done is joined only then: this is called several times for each collective.
template <class... Parts>
void check_cuda(cudaError_t error, const Parts&... what) {
  if (error != cudaSuccess) [[unlikely]]
    fail_cuda(error, join(what...));
}
template <class... Parts>
void check_driver(CUresult result, const Parts&... what) {
  if (result != CUDA_SUCCESS) [[unlikely]]
    fail_driver(result, join(what...));
}

// Devices that this process sees; 0 where there is no driver or no GPU.
int cuda_device_count();

// Whether what is enqueued on the stream goes into a graph.
bool is_captured(cudaStream_t stream);

// Loads a kernel for the current device. That waits for what runs there: a kernel that is first loaded when it is first
// launched could wait for one that waits for it.
void load_kernel(const void* kernel);

// Makes a device current, and the one before it when it ends.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = -1;  // not that of this guard
};

// Memory of a GPU, as it was once allocated.
struct Allocation {
  uint64_t number = 0;  // no other allocation of this process ever has it
  const std::byte* start = nullptr;
  size_t bytes = 0;
  int device = 0;
  bool has_ipc_handle = false;  // memory of cudaMalloc has, that of pools and of virtual addresses has not
};
// That in which `address` lies; none where that is no GPU's memory.
std::optional<Allocation> allocation_of(const void* address);

// A stream that neither waits for others nor makes them wait. When it ends, what it was given is done.
class OwnStream {
 public:
  OwnStream();
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  cudaStream_t get() const { return stream_; }
  cudaError_t finish() const { return cudaStreamSynchronize(stream_); }

 private:
  cudaStream_t stream_ = nullptr;
};

// While it lives, this thread may make and free memory although another thread captures a stream: without it, CUDA
// refuses, and the capture is lost. Nothing that is made here belongs into a graph.
class RelaxedCapture {
 public:
  RelaxedCapture();
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode other_ = cudaStreamCaptureModeRelaxed;  // this thread's, until it ends
  bool exchanged_ = false;
};

// The driver's calls for memory that processes share by descriptor.
struct VirtualMemoryCalls {
  decltype(&cuDeviceGet) get_device = nullptr;
  decltype(&cuDeviceGetAttribute) get_attribute = nullptr;
  decltype(&cuMemGetAllocationGranularity) get_granularity = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) free_address = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
  decltype(&cuMemExportToShareableHandle) export_handle = nullptr;
  decltype(&cuMemImportFromShareableHandle) import_handle = nullptr;

  // Throws kSystem where the driver lacks one.
  static VirtualMemoryCalls load();
};

}  // namespace plait
