// The copy-engine lock: only one communicator of this process at a time may have copies under way on a GPU.
//
// Streams share a few queues of the driver. Work that waits in such a queue blocks everything that was enqueued after
// it, on all streams of the queue. Copies wait for other ranks at a barrier. If two communicators, or two ranks that
// share a GPU, enqueued copies in different orders on different GPUs, each could block what the other waits for: a
// deadlock.
#pragma once

#include <cuda_runtime.h>

namespace plait {

class CopyEngineLock {
 public:
  // Makes the lock of a communicator's rank on `device`, which is current.
  explicit CopyEngineLock(int device);
  ~CopyEngineLock();
  CopyEngineLock(const CopyEngineLock&) = delete;
  CopyEngineLock& operator=(const CopyEngineLock&) = delete;

  // Takes the lock, until one of the functions below. False: another communicator holds it.
  bool try_lock();
  // Gives it back without copies.
  void unlock();
  // Call after enqueueing the copies that needed the lock: it is held until `stream` has done what it holds now.
  void unlock_when_done(cudaStream_t stream);
  // Call after capturing such copies: the graph may be launched at any time, so the lock is held until this is
  // destroyed.
  void lock_for_good();

 private:
  bool is_locked() const;

  const int device_;
  bool locked_ = false;
  bool locked_for_good_ = false;
  cudaEvent_t done_ = nullptr;  // after the last copies
};

// Gives the lock back when it is destroyed, unless `keeps` was set.
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
