#include "runtime/cuda/zero_copy/copy_engine_lock.hpp"

#include <map>
#include <mutex>

#include "runtime/cuda/driver/driver.hpp"

namespace plait {
namespace {

// The owner of each device's lock, for the whole process, because the driver's queues are per process. `mutex` also
// guards the members of every CopyEngineLock.
struct Owners {
  std::mutex mutex;
  std::map<int, CopyEngineLock*> by_device;
};

Owners& owners() {
  static Owners& all = *new Owners;  // never destroyed: static destructors of a program still make calls
  return all;
}

}  // namespace

CopyEngineLock::CopyEngineLock(int device) : device_(device) {
  check_cuda(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming), "an event");
}

CopyEngineLock::~CopyEngineLock() {
  {
    const std::scoped_lock lock(owners().mutex);
    CopyEngineLock*& owner = owners().by_device[device_];
    if (owner == this) owner = nullptr;
  }
  cudaEventDestroy(done_);
}

bool CopyEngineLock::is_locked() const {
  if (locked_for_good_ || locked_) return true;
  const RelaxedCapture relaxed;
  const cudaError_t state = cudaEventQuery(done_);
  if (state != cudaSuccess) cudaGetLastError();  // "not ready" is no error
  return state == cudaErrorNotReady;
}

bool CopyEngineLock::try_lock() {
  const std::scoped_lock lock(owners().mutex);
  CopyEngineLock*& owner = owners().by_device[device_];
  if (owner != nullptr && owner != this && owner->is_locked()) return false;
  owner = this;
  locked_ = true;
  return true;
}

void CopyEngineLock::unlock() {
  const std::scoped_lock lock(owners().mutex);
  locked_ = false;
}

void CopyEngineLock::unlock_when_done(cudaStream_t stream) {
  const std::scoped_lock lock(owners().mutex);
  check_cuda(cudaEventRecord(done_, stream), "recording the end of copies");
  locked_ = false;
}

void CopyEngineLock::lock_for_good() {
  const std::scoped_lock lock(owners().mutex);
  locked_for_good_ = true;
  locked_ = false;
}

}  // namespace plait
