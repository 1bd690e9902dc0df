// Which communicator of this process has copies under way on a GPU. Only one may have, at a time.
//
// Streams share a few queues of the driver, in which what waits holds up whatever was enqueued after it on any stream
// of the queue. Copies wait at a barrier for other ranks. Where two communicators, or two ranks that share a GPU,
// enqueue copies in different orders on different GPUs, each could hold up what the other waits for, for ever.
#pragma once

#include <cuda_runtime.h>

namespace plait {

class CopyEngineLock {
 public:
  // Of a communicator's rank on `device`, which is current.
  explicit CopyEngineLock(int device);
  ~CopyEngineLock();
  CopyEngineLock(const CopyEngineLock&) = delete;
  CopyEngineLock& operator=(const CopyEngineLock&) = delete;

  // False: it is another one's. It is this one's until one of the following.
  bool take();
  // No copies follow.
  void give_back();
  // The copies have been enqueued: until they are done, which is where `stream` is now.
  void keep_until_done(cudaStream_t stream);
  // The copies are in a graph that may be launched at any time: until this object ends.
  void keep();

 private:
  bool is_taken() const;

  const int device_;
  bool taken_ = false;
  bool kept_ = false;
  cudaEvent_t done_ = nullptr;  // the last copies
};

// Gives the turn back unless that was said to stay, whatever the reason.
class CopyEngineLockGuard {
 public:
  explicit CopyEngineLockGuard(CopyEngineLock& turn) : lock_(turn) {}
  ~CopyEngineLockGuard() {
    if (!stays) lock_.give_back();
  }
  CopyEngineLockGuard(const CopyEngineLockGuard&) = delete;
  CopyEngineLockGuard& operator=(const CopyEngineLockGuard&) = delete;
  bool stays = false;

 private:
  CopyEngineLock& lock_;
};

}  // namespace plait
