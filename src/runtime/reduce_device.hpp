// A GPU as the CPU drives it (NVG-54): it performs the reduces of a rank's plan, one work request after the other, and
// the CPU does the rest. Tests have one of their own that is no GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/premul_scalar.hpp"
#include "runtime/work_request.hpp"

namespace plait {

// One thread at a time, but for give_up(). Functions that may fail throw kSystem, which says what CUDA said.
class ReduceDevice {
 public:
  virtual ~ReduceDevice() = default;

  // The scratch of `rank` in large room 0 or 1, as this GPU addresses it; null: the rank is on another host.
  virtual std::byte* scratch(int rank, uint32_t room) const = 0;
  // Lets the GPU reach so many bytes of host memory that all ranks of this host share. Call it once.
  virtual void map_host(std::shared_ptr<std::byte> memory, size_t bytes) = 0;
  // The GPU's address of a byte of that memory.
  virtual std::byte* of_host(const std::byte* address) const = 0;

  // Whether post() may be called: the queue has room.
  virtual bool has_room() = 0;
  // Asks the GPU for a reduce, and returns the number of the request. Numbers count from 1 and only grow (NVG-40).
  // What this thread has seen before is visible to the reduce.
  virtual uint64_t post(const WorkRequest& request) = 0;
  // Whether all requests up to this one are done. What they stored is visible afterwards.
  virtual bool is_done(uint64_t number) = 0;

  // Multiplies so many elements of `input` by the scalar, into `output`, which is `input` or apart; null: into memory
  // of this device, until the next product or copy. Returns where the products are, when they are.
  virtual const void* multiply(const Scalar& scalar, const void* input, void* output, size_t elements) = 0;

  // Copies so many bytes of a GPU buffer into memory of this device, until the next copy or product. Returns where they
  // are, when they are.
  virtual const void* copy(const void* input, size_t bytes) = 0;

  // Does `work` with this GPU as the current one of the calling thread: what a network library asks CUDA is about it.
  virtual void use(const std::function<void()>& work) const = 0;

  // Waits until the GPU has left all buffers, whether the requests are done or not.
  virtual void finish() = 0;
  // Lets the GPU take no more requests. Any thread.
  virtual void give_up() noexcept = 0;

  virtual int ordinal() const = 0;
  virtual size_t device_bytes() const = 0;
  virtual uint64_t requests() const = 0;  // that were posted so far
};

}  // namespace plait
