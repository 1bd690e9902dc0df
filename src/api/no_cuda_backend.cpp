// The stand-in for builds without CUDA.
#ifndef PLAIT_HAVE_CUDA
#include "api/device_backend.hpp"
#include "base/error.hpp"

namespace plait {
namespace {

[[noreturn]] void refuse() {
  fail(ErrorCode::kInvalidArgument,
       "this build of Plait has no CUDA: communicators have no devices; build it with nvcc, "
       "or with PLAIT_CUDA=wheel, and see what the build says of CUDA");
}

}  // namespace

void DeviceBackend::check_device(int) { refuse(); }

std::unique_ptr<StagingDevice> DeviceBackend::staging_device(int, size_t) { refuse(); }

std::unique_ptr<ReduceDevice> DeviceBackend::reduce_device(Bootstrap&, std::vector<int>, int, const Settings&) {
  refuse();
}

std::unique_ptr<DeviceBackend> DeviceBackend::create(Bootstrap&, int, const Settings&, std::shared_ptr<Segment>, Peers,
                                                     const AgreedTopology&) {
  refuse();
}

std::vector<std::unique_ptr<DeviceBackend>> DeviceBackend::in_process(std::span<const int>, const Settings&,
                                                                      const std::shared_ptr<Segment>&,
                                                                      const AgreedTopology&) {
  refuse();
}

}  // namespace plait
#endif
