// Blocking calls where nothing better is to be had than to launch them and to wait.
#include "api/device_backend.hpp"

namespace plait {

void DeviceBackend::run(const Call& call, const void* input, void* output, const Scalar* scalar) {
  bool is_enqueued = start(call, input, output, stream_of_blocking_calls(), scalar);
  while (!is_enqueued) is_enqueued = advance();
  finish();
  poll_reports();
  throw_if_failed();
}

}  // namespace plait
