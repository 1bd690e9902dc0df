// Zeroed memory of a GPU. Making it waits for nothing else that runs there, since that could be a kernel that waits for
// this rank. Nor does it touch the default stream, because that would invalidate captures of other threads.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "runtime/cuda/driver/driver.hpp"

namespace plait {

// Fills memory of the current device with zeros. Throws kSystem if CUDA refuses.
void clear_memory(void* memory, size_t bytes);

template <class T>
class ClearedMemory {
 public:
  // Allocates `count` elements on the current device. Throws kResources if there is no memory.
  explicit ClearedMemory(size_t count = 1) {
    check_cuda(cudaMalloc(&memory_, count * sizeof(T)), count * sizeof(T), " bytes of memory");
    try {
      clear_memory(memory_, count * sizeof(T));
    } catch (...) {
      cudaFree(memory_);
      throw;
    }
  }
  ~ClearedMemory() { cudaFree(memory_); }
  ClearedMemory(const ClearedMemory&) = delete;
  ClearedMemory& operator=(const ClearedMemory&) = delete;
  T* get() const { return memory_; }

 private:
  T* memory_ = nullptr;
};

}  // namespace plait
