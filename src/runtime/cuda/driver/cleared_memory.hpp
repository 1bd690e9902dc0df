// Memory of a GPU that is full of zeros, made without waiting for anything else that runs there: that could be a kernel
// that waits for this rank. Nor does it touch the default stream, for which captures of other threads would be lost.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "runtime/cuda/driver/driver.hpp"

namespace plait {

// Memory of the current device. Throws kSystem where CUDA refuses.
void clear_memory(void* memory, size_t bytes);

template <class T>
class ClearedMemory {
 public:
  // Room for `count` on the current device. Throws kResources where there is none.
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
