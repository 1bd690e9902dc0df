// Forks a stream: work that runs concurrently with what the stream gets next, until both are joined. The stream may be
// captured.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

namespace plait {

// The stream and the events of a fork. Made once for the current device, and used by one fork at a time.
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

// A fork starts after everything that the stream holds already. Until join(), its work and the stream's do not wait for
// each other. All functions throw kSystem if CUDA refuses.
class StreamFork {
 public:
  StreamFork(SideStream& side, cudaStream_t stream);
  // Joins if that was not done, as far as possible: after an exception no work may go on unnoticed.
  ~StreamFork();
  StreamFork(const StreamFork&) = delete;
  StreamFork& operator=(const StreamFork&) = delete;

  // As cudaLaunchKernel, at no lower priority than the stream's. `argument` is copied.
  void launch(const void* kernel, dim3 grid, dim3 block, void* argument, const char* what);
  // Copies by a copy engine.
  void copy(void* to, const void* from, size_t bytes);

  // Makes what the stream gets from here on wait for the fork.
  void join();

 private:
  SideStream& side_;
  const cudaStream_t stream_;
  bool is_joined_ = false;
  // If the stream is captured, the fork consists of nodes of its graph. A second stream would stay part of the capture
  // until the user ends it, and could serve no other call meanwhile.
  cudaGraph_t graph_ = nullptr;
  std::vector<cudaGraphNode_t> last_;
};

}  // namespace plait
