// Memory for the products of pre-multiplied sums, where they may not lie in the caller's. It is taken and given back in
// the order of a stream, so that a CUDA graph captures that as well.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace plait {

class ProductMemory {
 public:
  // On `device`, which is current. Takes no memory yet.
  explicit ProductMemory(int device);
  // Waits for nobody; memory that the GPU still uses goes back when it is done.
  ~ProductMemory();
  ProductMemory(const ProductMemory&) = delete;
  ProductMemory& operator=(const ProductMemory&) = delete;

  // A piece that work enqueued on the stream may use until this ends.
  class Piece {
   public:
    Piece() = default;
    ~Piece();
    Piece(const Piece&) = delete;
    Piece& operator=(const Piece&) = delete;
    void* get() const { return usable_; }

   private:
    friend class ProductMemory;
    void* taken_ = nullptr;
    void* usable_ = nullptr;
    cudaStream_t stream_ = nullptr;
  };

  // `bytes` that lie within 16 bytes as `like` does. Throws kResources where there are none, kSystem where the device
  // has no such memory.
  void take(size_t bytes, const void* like, cudaStream_t stream, Piece& piece) const;

 private:
  const int device_;
  cudaMemPool_t pool_ = nullptr;  // null where the device has none
};

}  // namespace plait
