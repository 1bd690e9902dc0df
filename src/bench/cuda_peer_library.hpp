// Libraries that perform a call on memory of the GPU in the order of a stream.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/communicator.hpp"
#include "bench/ranks.hpp"
#include "bench/ring_shift.hpp"
#include "runtime/call.hpp"

namespace plait {

// Made and used on a thread whose current device is the communicator's.
class CudaPeerLibrary {
 public:
  virtual ~CudaPeerLibrary() = default;
  // With its version: "NCCL 2.28.3".
  virtual std::string name() const = 0;
  // Whether the library has this collective for this type and operation, and for buffers in place.
  virtual bool serves(const Call& call, bool in_place) const = 0;
  // Puts the call behind the work of `stream`, a cudaStream_t that may be capturing. Buffers as Communicator::enqueue
  // takes them.
  virtual void enqueue(const Call& call, const void* input, void* output, void* stream) = 0;
  // The same for messages; a library may have none.
  virtual bool serves(const RingShift& shift) const = 0;
  virtual void enqueue(const RingShift& shift, const void* input, void* output, void* stream) = 0;
  // Whether the library has pre-multiplied sums, and one of them.
  virtual bool multiplies() const { return false; }
  virtual void enqueue_multiplied(const Call& call, const Scalar& factor, const void* input, void* output,
                                  void* stream) = 0;
  // Whether calls take kBlockingStream in the place of a stream.
  virtual bool blocks() const { return false; }
  // Throws where something has gone wrong on the GPU.
  virtual void check() = 0;
  // The only memory that its calls are about, of the benchmark's largest size; null: any memory of the GPU will do.
  virtual BufferPair own_buffers() const { return {}; }
};

std::unique_ptr<CudaPeerLibrary> make_cuda_plait_peer(Communicator& communicator);

// NCCL with ordinary memory and, where the library and the machine have it, with memory registered as windows of
// `largest_bytes`: one or two peers on one NCCL communicator. `libraries` are tried in turn, as dlopen takes
// them. Collective. Throws kInvalidArgument on all ranks where NCCL is not there or refuses these ranks.
std::vector<std::unique_ptr<CudaPeerLibrary>> make_nccl_peers(Communicator& communicator, size_t largest_bytes,
                                                              const std::vector<std::string>& libraries);

}  // namespace plait
