// Blocking calls where nothing better is to be had than to launch them and to wait.
#include "api/device_backend.hpp"

namespace plait {
namespace {

void* const kStreamPerThread = reinterpret_cast<void*>(uintptr_t{2});  // cudaStreamPerThread

}  // namespace

void DeviceBackend::run(const Call& call, const void* input, void* output, const Scalar* scalar) {
  bool is_enqueued = start(call, input, output, kStreamPerThread, scalar);
  while (!is_enqueued) is_enqueued = advance();
  finish();
  poll_reports();
  throw_if_failed();
}

}  // namespace plait
