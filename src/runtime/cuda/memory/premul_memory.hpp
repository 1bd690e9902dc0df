// Memory for the products of pre-multiplied sums, for calls that may not write them into the user's output buffer. It
// is allocated and freed in stream order. Captured calls keep their memory until the communicator ends, and all of them
// share it, since calls of a communicator do not overlap. A graph that allocated memory itself could wait at its launch
// for kernels of other ranks, which wait for this graph.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

namespace plait {

class PremulMemory {
 public:
  // On `device`, which is current. Allocates no memory yet.
  explicit PremulMemory(int device);
  // Does not wait; memory that calls under way still use is freed when they are done.
  ~PremulMemory();
  PremulMemory(const PremulMemory&) = delete;
  PremulMemory& operator=(const PremulMemory&) = delete;

  // A piece of memory that work enqueued on the stream may use until this is destroyed.
  class Piece {
   public:
    Piece() = default;
    ~Piece();
    Piece(const Piece&) = delete;
    Piece& operator=(const Piece&) = delete;
    void* get() const { return usable_; }

   private:
    friend class PremulMemory;
    void* taken_ = nullptr;
    void* usable_ = nullptr;
    cudaStream_t stream_ = nullptr;
  };

  // Takes `bytes` of memory with the same address modulo 16 as `like`. Throws kResources if there is not enough memory,
  // kSystem if the device has no memory pools.
  void take(size_t bytes, const void* like, cudaStream_t stream, Piece& piece);

 private:
  struct Kept {
    void* memory = nullptr;
    size_t bytes = 0;
  };
  void* keep(size_t bytes);

  const int device_;
  cudaMemPool_t pool_ = nullptr;  // null: the device has none
  std::vector<Kept> kept_;        // for captured calls, the largest last
};

}  // namespace plait
