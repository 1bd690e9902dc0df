// Which communicator of this process has copies under way on a GPU. Only one may have, at a time.
//
// Streams share a few queues of the driver, in which what waits holds up whatever was enqueued after it on any stream
// of the queue. Copies wait at a gate for other ranks. Where two communicators, or two ranks that share a GPU, enqueue
// copies in different orders on different GPUs, each could hold up what the other waits for, for ever.
#pragma once

#include <cuda_runtime.h>

namespace plait {

class CopyEngines {
 public:
  // Of a communicator's rank on `device`, which is current.
  explicit CopyEngines(int device);
  ~CopyEngines();
  CopyEngines(const CopyEngines&) = delete;
  CopyEngines& operator=(const CopyEngines&) = delete;

  // False: another one has them. They are this one's until one of the following, and what that says.
  bool take();
  void give_back();
  // What has been enqueued on `stream` is done.
  void keep_until_done(cudaStream_t stream);
  // This object ends: a graph may be launched at any time.
  void keep();

 private:
  bool in_use() const;

  const int device_;
  bool taken_ = false;
  bool kept_ = false;
  cudaEvent_t done_ = nullptr;  // the last copies
};

}  // namespace plait
