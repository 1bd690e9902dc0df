// Work that runs beside what a stream gets meanwhile, be the stream captured or not.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

namespace plait {

// What forks that run at once need: made once for a device, which is current, and used by one fork at a time.
class SideStream {
 public:
  SideStream();
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

 private:
  friend class StreamFork;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr, done_ = nullptr;
};

// Begins after all that the stream holds. Nothing that is put on it waits for what the stream gets until join(), and
// the other way round. All functions throw kSystem where CUDA refuses.
class StreamFork {
 public:
  StreamFork(SideStream& side, cudaStream_t stream);
  // Joins what was not joined, as far as that is possible: nothing may run on unnoticed where something was thrown.
  ~StreamFork();
  StreamFork(const StreamFork&) = delete;
  StreamFork& operator=(const StreamFork&) = delete;

  // What cudaLaunchKernel takes; at no lower priority than the stream's. `argument` is copied.
  void launch(const void* kernel, dim3 grid, dim3 block, void* argument, const char* what);
  // By a copy engine.
  void copy(void* to, const void* from, size_t bytes);

  // What the stream gets from here on waits for the fork.
  void join();

 private:
  SideStream& side_;
  const cudaStream_t stream_;
  bool is_joined_ = false;
  // Where the stream is captured, the fork consists of nodes of the graph: a stream of our own would stay part of the
  // capture until the user ends it, and could serve no other call meanwhile.
  cudaGraph_t graph_ = nullptr;
  std::vector<cudaGraphNode_t> last_;
};

}  // namespace plait
