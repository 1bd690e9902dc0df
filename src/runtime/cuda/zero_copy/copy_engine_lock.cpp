#include "runtime/cuda/zero_copy/copy_engine_lock.hpp"

#include <map>
#include <mutex>

#include "runtime/cuda/driver/driver.hpp"

namespace plait {
namespace {

// Whose turn it is, by device. Of the whole process, as the driver's queues are. `mutex` also guards what a
// CopyEngineLock remembers.
struct Turns {
  std::mutex mutex;
  std::map<int, CopyEngineLock*> by_device;
};

Turns& turns() {
  static Turns& all = *new Turns;  // for good: static destructors of a program still make calls
  return all;
}

}  // namespace

CopyEngineLock::CopyEngineLock(int device) : device_(device) {
  check_cuda(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming), "an event");
}

CopyEngineLock::~CopyEngineLock() {
  {
    const std::scoped_lock lock(turns().mutex);
    CopyEngineLock*& owner = turns().by_device[device_];
    if (owner == this) owner = nullptr;
  }
  cudaEventDestroy(done_);
}

bool CopyEngineLock::is_taken() const {
  if (kept_ || taken_) return true;
  const CaptureAside aside;
  const cudaError_t state = cudaEventQuery(done_);
  if (state != cudaSuccess) cudaGetLastError();  // that it is not done is no error
  return state == cudaErrorNotReady;
}

bool CopyEngineLock::take() {
  const std::scoped_lock lock(turns().mutex);
  CopyEngineLock*& owner = turns().by_device[device_];
  if (owner != nullptr && owner != this && owner->is_taken()) return false;
  owner = this;
  taken_ = true;
  return true;
}

void CopyEngineLock::give_back() {
  const std::scoped_lock lock(turns().mutex);
  taken_ = false;
}

void CopyEngineLock::keep_until_done(cudaStream_t stream) {
  const std::scoped_lock lock(turns().mutex);
  check_cuda(cudaEventRecord(done_, stream), "recording the end of copies");
  taken_ = false;
}

void CopyEngineLock::keep() {
  const std::scoped_lock lock(turns().mutex);
  kept_ = true;
  taken_ = false;
}

}  // namespace plait
