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
  bool try_lock();
  // No copies follow.
  void unlock();
  // The copies have been enqueued: until they are done, which is where `stream` is now.
  void unlock_when_done(cudaStream_t stream);
  // The copies are in a graph that may be launched at any time: until this object ends.
  void lock_for_good();

 private:
  bool is_locked() const;

  const int device_;
  bool locked_ = false;
  bool locked_for_good_ = false;
  cudaEvent_t done_ = nullptr;  // the last copies
};

// Gives the turn back unless that was said to stay, whatever the reason.
class CopyEngineLockGuard {
 public:
  explicit CopyEngineLockGuard(CopyEngineLock& lock) : lock_(lock) {}
  ~CopyEngineLockGuard() {
    if (!keeps) lock_.unlock();
  }
  CopyEngineLockGuard(const CopyEngineLockGuard&) = delete;
  CopyEngineLockGuard& operator=(const CopyEngineLockGuard&) = delete;
  bool keeps = false;

 private:
  CopyEngineLock& lock_;
};

}  // namespace plait
