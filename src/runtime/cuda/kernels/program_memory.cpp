// Programs in memory of the GPU.
#include "runtime/cuda/kernels/program_memory.hpp"

#include <cuda_runtime.h>

#include <cstring>
#include <iterator>

#include "runtime/cuda/driver/driver.hpp"
#include "runtime/cuda/driver/free_when_idle.hpp"

namespace plait {

ProgramMemory::ProgramMemory(const QueueProgram& program, bool on_gpu) : on_gpu_(on_gpu) {
  full_ = add(program.full, std::size(program.full));
  ending_ = add(program.ending, std::size(program.ending));
  last_ = add(program.last, std::size(program.last));
  operations_ = add(program.operations.data(), program.operations.size());
  places_ = add(program.places.data(), program.places.size());
  flags_ = add(program.flags.data(), program.flags.size());
  if (on_gpu_) upload();
}

ProgramMemory::~ProgramMemory() {
  if (memory_ == nullptr) return;
  free_when_idle(device_, [memory = memory_] {
    const RelaxedCapture relaxed;
    cudaFree(memory);
  });
}

void ProgramMemory::set(LongLaunch& launch) const {
  launch.full = at<SliceProgram>(full_);
  launch.ending = at<SliceProgram>(ending_);
  launch.last = at<SliceProgram>(last_);
  launch.operations = at<DeviceOperation>(operations_);
  launch.places = at<DevicePlace>(places_);
  launch.flags = at<FlagRef>(flags_);
}

template <class T>
size_t ProgramMemory::add(const T* items, size_t count) {
  constexpr size_t kAlignment = 16;
  const size_t offset = (bytes_.size() + kAlignment - 1) / kAlignment * kAlignment;
  bytes_.resize(offset + count * sizeof(T));
  if (count > 0) std::memcpy(bytes_.data() + offset, items, count * sizeof(T));
  return offset;
}

// On a stream of its own, so that neither waits for a kernel that waits for this rank. cudaMalloc() might, so a pool
// comes first.
void ProgramMemory::upload() {
  const RelaxedCapture relaxed;
  check_cuda(cudaGetDevice(&device_), "asking for the current GPU");
  int has_pools = 0;
  check_cuda(cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, device_), "asking for memory pools");
  const OwnStream stream;
  void* memory = nullptr;
  check_cuda(
      has_pools != 0 ? cudaMallocAsync(&memory, bytes_.size(), stream.get()) : cudaMalloc(&memory, bytes_.size()),
      bytes_.size(), " bytes of memory for the operations of a long plan");
  memory_ = static_cast<std::byte*>(memory);
  try {
    check_cuda(cudaMemcpyAsync(memory_, bytes_.data(), bytes_.size(), cudaMemcpyHostToDevice, stream.get()),
               "copying the operations of a long plan");
    check_cuda(stream.finish(), "copying the operations of a long plan");
  } catch (...) {
    cudaFree(memory);
    throw;
  }
}

}  // namespace plait
