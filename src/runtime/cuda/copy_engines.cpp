#include "runtime/cuda/copy_engines.hpp"

#include <map>
#include <mutex>

#include "runtime/cuda/driver.hpp"

namespace plait {
namespace {

// By device, who has its copy engines. Of the whole process, as the queues are; `mutex` also guards all members that
// are not constant.
struct Owners {
  std::mutex mutex;
  std::map<int, CopyEngines*> by_device;
};

Owners& owners() {
  static Owners all;
  return all;
}

}  // namespace

CopyEngines::CopyEngines(int device) : device_(device) {
  check_cuda(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming), "an event");
}

CopyEngines::~CopyEngines() {
  {
    const std::scoped_lock lock(owners().mutex);
    CopyEngines*& owner = owners().by_device[device_];
    if (owner == this) owner = nullptr;
  }
  cudaEventDestroy(done_);
}

bool CopyEngines::in_use() const {
  if (kept_ || taken_) return true;
  const CaptureAside aside;
  const cudaError_t state = cudaEventQuery(done_);
  if (state != cudaSuccess) cudaGetLastError();  // that it is not done is no error
  return state == cudaErrorNotReady;
}

bool CopyEngines::take() {
  const std::scoped_lock lock(owners().mutex);
  CopyEngines*& owner = owners().by_device[device_];
  if (owner != nullptr && owner != this && owner->in_use()) return false;
  owner = this;
  taken_ = true;
  return true;
}

void CopyEngines::give_back() {
  const std::scoped_lock lock(owners().mutex);
  taken_ = false;
}

void CopyEngines::keep_until_done(cudaStream_t stream) {
  const std::scoped_lock lock(owners().mutex);
  check_cuda(cudaEventRecord(done_, stream), "recording the end of copies");
  taken_ = false;
}

void CopyEngines::keep() {
  const std::scoped_lock lock(owners().mutex);
  kept_ = true;
  taken_ = false;
}

}  // namespace plait
