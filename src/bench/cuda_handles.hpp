// CUDA's things, freed by themselves. For files that are compiled where there is CUDA.
#pragma once

#include <memory>
#include <string>

#include "runtime/cuda/driver/driver.hpp"

namespace plait {

// Calls CUDA's function for it. Its failure was reported before, or is about a process that ends.
template <auto destroy>
struct CudaDestroy {
  template <class Handle>
  void operator()(Handle handle) const {
    if (destroy(handle) != cudaSuccess) cudaGetLastError();
  }
};

template <class Handle, auto destroy>
using CudaHandle = std::unique_ptr<std::remove_pointer_t<Handle>, CudaDestroy<destroy>>;

using Stream = CudaHandle<cudaStream_t, cudaStreamDestroy>;
using Event = CudaHandle<cudaEvent_t, cudaEventDestroy>;
using Graph = CudaHandle<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = CudaHandle<cudaGraphExec_t, cudaGraphExecDestroy>;

// Memory of the current device.
struct DeviceFree {
  void operator()(std::byte* memory) const {
    if (cudaFree(memory) != cudaSuccess) cudaGetLastError();
  }
};
using DeviceMemory = std::unique_ptr<std::byte, DeviceFree>;

inline Stream make_stream() {
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  return Stream(stream);
}

inline Event make_event() {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreate(&event), "making an event");
  return Event(event);
}

inline DeviceMemory make_device_memory(size_t bytes) {
  void* memory = nullptr;
  check_cuda(cudaMalloc(&memory, bytes), "getting " + std::to_string(bytes) + " bytes for the benchmark's buffers");
  return DeviceMemory(static_cast<std::byte*>(memory));
}

}  // namespace plait
