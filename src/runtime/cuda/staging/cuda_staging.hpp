// Staging by CUDA: copies on two streams of its own, which wait for counters in pinned host memory and write them.
#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "runtime/cuda/driver/driver.hpp"
#include "runtime/staging_device.hpp"

namespace plait {

class CudaStaging final : public StagingDevice {
 public:
  // Throws kSystem if streams of the device cannot wait for host memory, and kResources if there is not so much of it.
  CudaStaging(int device, size_t bytes);
  // Waits until all copies are done; those that wait for the CPU wait no more. The memory is freed later, when no call
  // of the process is under way.
  ~CudaStaging() override;

  int ordinal() const override { return device_; }
  std::span<std::byte> memory() override;
  StagingCounters& counters() override;
  void begin(void* stream) override;
  void copy_in(const void* buffer, std::byte* memory, const StagedRows& rows) override;
  void copy_out(const std::byte* memory, void* buffer, const StagedRows& rows) override;
  void await_before_in(size_t lane, uint64_t chunk) override;
  void await_before_out(size_t lane, uint64_t chunk) override;
  void count_in(uint64_t chunk) override;
  void count_out(uint64_t chunk) override;
  void end(void* stream) override;
  void finish() override;
  void check() override;

 private:
  struct Streams;
  struct Calls;

  // The address by which the GPU reaches a counter.
  CUdeviceptr address_of(const StagingCounter& counter) const;
  void await(cudaStream_t stream, const StagingCounter& counter, uint64_t chunk) const;
  void count(cudaStream_t stream, const StagingCounter& counter, uint64_t chunk) const;

  const int device_;
  const size_t bytes_;
  std::unique_ptr<Calls> calls_;
  std::shared_ptr<std::byte> pinned_;  // the counters, then the memory
  CUdeviceptr mapped_ = 0;
  std::unique_ptr<Streams> streams_;
  void* last_stream_ = nullptr;  // of the last call
};

}  // namespace plait
