// A fake of CUDA, as far as the host's part of the runtime needs it to decide when it may do what: streams, events,
// memory and handles of a GPU on which calls end when a test says so. Programs that use it are not linked with CUDA.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace plait::test {

class FakeCuda {
 public:
  // There is only one; every test begins with reset().
  static FakeCuda& get();
  void reset();

  // Recorded work stays under way for `length`; without this, until end_calls().
  void set_length_of_calls(std::chrono::milliseconds length);
  void end_calls();
  bool is_busy();

  std::byte* allocate(size_t bytes);
  void free(const std::byte* memory);
  void set_free_memory(double part);

  // The GPU, and the result of asking for an image of a kernel for it.
  struct Gpu {
    const char* name = "a GPU";
    int major = 9, minor = 0;
    cudaError_t image = cudaSuccess;
  };
  void set_gpu(const Gpu& gpu) { gpu_ = gpu; }
  const Gpu& gpu() const { return gpu_; }

  // Behaves from now on as at the end of a process, when CUDA shuts down before the threads that use it.
  void go();

  // Gives the handle of a stream a new number, as if it belonged to another stream from now on.
  void renew_stream(cudaStream_t stream);

  // Counts so far:
  size_t waits();              // how often a stream waited for an event
  size_t queries();            // how often an event was queried
  size_t opened();             // how many memory handles are open now
  size_t closed_amid_calls();  // how many were closed while calls were under way

  // ---- The work of CUDA's functions
  cudaError_t record(cudaEvent_t event);
  cudaError_t query(cudaEvent_t event);
  cudaError_t set_device(int device);
  void note_wait();
  unsigned long long number_of(cudaStream_t stream);
  cudaError_t export_memory(cudaIpcMemHandle_t* handle, const void* memory);
  cudaError_t open(void** memory, const cudaIpcMemHandle_t& handle);
  cudaError_t close(const void* memory);
  void left(size_t* free, size_t* total);

  struct Memory {
    uint64_t number = 0;
    size_t bytes = 0;
    uint64_t start = 0;
  };
  Memory memory_at(uint64_t address);  // none: number 0

 private:
  std::mutex mutex_;
  using Clock = std::chrono::steady_clock;
  std::map<cudaEvent_t, Clock::time_point> ends_;
  std::optional<std::chrono::milliseconds> length_;
  std::map<cudaStream_t, unsigned long long> streams_;
  std::map<uint64_t, Memory> memory_;    // by start
  std::map<uint64_t, uint64_t> opened_;  // numbers of allocations, by the address where they are mapped
  uint64_t last_number_ = 0, next_address_ = 0;
  unsigned long long last_stream_ = 0;
  size_t waits_ = 0, queries_ = 0, closed_amid_calls_ = 0;
  double free_part_ = 1;
  bool is_gone_ = false;
  Gpu gpu_;
};

}  // namespace plait::test
