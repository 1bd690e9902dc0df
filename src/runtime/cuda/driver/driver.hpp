// CUDA's runtime and driver: errors, the current device, and driver functions that the runtime does not offer. Nothing
// links to the driver's library, so Plait loads on machines without it.
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

// On an error, throws kSystem (kResources if memory is short) with CUDA's own description, and with advice if there is
// any. `what` says what was attempted; it is joined only on an error, since each collective calls this several times.
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

// How many devices this process sees; 0 if there is no driver or no GPU.
int cuda_device_count();

// Whether the stream is being captured into a graph.
bool is_captured(cudaStream_t stream);

// Loads a kernel for the current device. Loading waits for everything that runs there, so a kernel that is loaded only
// at its first launch could deadlock with a running kernel that waits for it.
void load_kernel(const void* kernel);

// Makes a device current, and restores the previous one when it is destroyed.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = -1;  // the device to restore; -1: none
};

// An allocation of GPU memory.
struct Allocation {
  uint64_t number = 0;  // unique among all allocations that this process ever makes
  const std::byte* start = nullptr;
  size_t bytes = 0;
  int device = 0;
  bool has_ipc_handle = false;  // true for cudaMalloc, false for memory pools and virtual memory management
};
// The allocation that contains `address`; none if that is not GPU memory.
std::optional<Allocation> allocation_of(const void* address);

// A stream that does not synchronise with the default stream, of the current device or of the one that is named. Its
// destructor waits until its work is done.
class OwnStream {
 public:
  OwnStream();
  explicit OwnStream(int device);
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  cudaStream_t get() const { return stream_; }
  cudaError_t finish() const { return cudaStreamSynchronize(stream_); }

 private:
  cudaStream_t stream_ = nullptr;
};

// While it lives, this thread may allocate and free memory although another thread captures a stream. Without it CUDA
// refuses, and the capture is invalidated. Nothing that is made meanwhile belongs to a graph.
class RelaxedCapture {
 public:
  RelaxedCapture();
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode other_ = cudaStreamCaptureModeRelaxed;  // after the exchange: the mode to restore
  bool exchanged_ = false;
};

// The driver's functions for memory that processes share by file descriptor.
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

  // Throws kSystem if the driver lacks one.
  static VirtualMemoryCalls load();
};

}  // namespace plait
