// Memory for the products of pre-multiplied sums, where they may not lie in the caller's. It is taken and given back in
// the order of a stream. What is captured keeps its memory to the end, and shares it with all else that is captured,
// since calls of a communicator do not overlap: a graph that took memory itself could wait, when it is launched, for
// kernels of other ranks, which wait for it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

namespace plait {

class PremulMemory {
 public:
  // On `device`, which is current. Takes no memory yet.
  explicit PremulMemory(int device);
  // Waits for nobody; memory that eager calls still use goes back when they are done.
  ~PremulMemory();
  PremulMemory(const PremulMemory&) = delete;
  PremulMemory& operator=(const PremulMemory&) = delete;

  // A piece that work enqueued on the stream may use until this ends.
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

  // `bytes` that lie within 16 bytes as `like` does. Throws kResources where there are none, kSystem where the device
  // has no such memory.
  void take(size_t bytes, const void* like, cudaStream_t stream, Piece& piece);

 private:
  struct Kept {
    void* memory = nullptr;
    size_t bytes = 0;
  };
  void* keep(size_t bytes);

  const int device_;
  cudaMemPool_t pool_ = nullptr;  // null where the device has none
  std::vector<Kept> kept_;        // for captured calls, the largest last
};

}  // namespace plait
