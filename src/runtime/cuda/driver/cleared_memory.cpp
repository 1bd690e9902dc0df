#include "runtime/cuda/driver/cleared_memory.hpp"

namespace plait {

void clear_memory(void* memory, size_t bytes) {
  const OwnStream stream;
  check_cuda(cudaMemsetAsync(memory, 0, bytes, stream.get()), "clearing memory");
  check_cuda(stream.finish(), "clearing memory");
}

}  // namespace plait
