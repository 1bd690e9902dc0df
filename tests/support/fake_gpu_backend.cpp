// In the place of src/api/cuda_backend.cpp: communicators of several hosts get the GPU of fake_staging.hpp.
#include "api/device_backend.hpp"
#include "support/fake_reduces.hpp"
#include "support/fake_staging.hpp"

namespace plait {

void DeviceBackend::check_device(int) {}

std::unique_ptr<StagingDevice> DeviceBackend::staging_device(int, size_t bytes) {
  return std::make_unique<test::FakeStaging>(bytes);
}

std::unique_ptr<ReduceDevice> DeviceBackend::reduce_device(Bootstrap& on_host, std::vector<int> ranks, int,
                                                           const Settings& settings) {
  return std::make_unique<test::FakeReduces>(on_host, std::move(ranks), settings.scratch_bytes);
}

std::unique_ptr<DeviceBackend> DeviceBackend::create(Bootstrap&, int, const Settings&, std::shared_ptr<Segment>, Peers,
                                                     const AgreedTopology&) {
  fail(ErrorCode::kInternal, "this GPU is for several hosts only");
}

std::vector<std::unique_ptr<DeviceBackend>> DeviceBackend::in_process(std::span<const int>, const Settings&,
                                                                      const std::shared_ptr<Segment>&,
                                                                      const AgreedTopology&) {
  return {};
}

}  // namespace plait
