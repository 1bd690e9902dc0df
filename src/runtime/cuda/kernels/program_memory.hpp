// The program of a long plan in memory of the GPU. It is written once, before any launch reads it, and never changed.
// Launches therefore need no order with it, and captured ones read it for as long as it exists.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/cuda/kernels/queue_kernel.hpp"
#include "runtime/cuda/lowering/queue_program.hpp"

namespace plait {

class ProgramMemory {
 public:
  // Puts the program on the current GPU, and waits for nothing else that runs there. It belongs to no graph, even while
  // a stream of this thread is captured. `on_gpu` false: into host memory, for kernels that a CPU runs. Throws
  // kResources if there is no memory.
  ProgramMemory(const QueueProgram& program, bool on_gpu);
  // Frees it once no call of the process is under way.
  ~ProgramMemory();
  ProgramMemory(const ProgramMemory&) = delete;
  ProgramMemory& operator=(const ProgramMemory&) = delete;

  // Makes a launch read this program.
  void set(LongLaunch& launch) const;
  size_t device_bytes() const { return on_gpu_ ? bytes_.size() : 0; }

 private:
  template <class T>
  size_t add(const T* items, size_t count);
  void upload();
  template <class T>
  const T* at(size_t offset) const {
    const std::byte* const begin = on_gpu_ ? memory_ : bytes_.data();
    return reinterpret_cast<const T*>(begin + offset);
  }

  const bool on_gpu_;
  std::vector<std::byte> bytes_;
  size_t full_ = 0, ending_ = 0, last_ = 0, operations_ = 0, places_ = 0, flags_ = 0;  // offsets
  int device_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace plait
