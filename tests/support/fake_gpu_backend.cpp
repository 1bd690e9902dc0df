// In the place of src/api/cuda_backend.cpp: communicators get the GPU of fake_staging.hpp. Kernels there are none, and
// who asks for one is told so.
#include "api/device_backend.hpp"
#include "api/live_machine.hpp"
#include "api/plan_limits.hpp"
#include "support/fake_reduces.hpp"
#include "support/fake_staging.hpp"

namespace plait {
namespace {

class FakeKernels final : public DeviceBackend {
 public:
  FakeKernels(RankMachine machine, std::shared_ptr<Segment> segment, int rank, Peers peers, const Settings& settings)
      : state_(std::move(segment), rank, std::move(peers)),
        tuner_(with_gpus(std::move(machine)), settings, short_gpu_plan_limits(), true) {}

  bool start(const Call& call, const void*, void*, void*, const Scalar*) override {
    fail(ErrorCode::kInvalidArgument, "kernels were asked to perform ", to_text(call));
  }
  bool start(std::span<const PeerMessage>, std::span<void* const>) override {
    fail(ErrorCode::kInvalidArgument, "kernels were asked to perform messages");
  }
  bool advance() override { return true; }
  void* stream_of_blocking_calls() override { return nullptr; }
  Tuner& tuner() override { return tuner_; }
  PlanLimits plan_limits() const override { return gpu_plan_limits(); }
  void give(std::shared_ptr<const VerifiedPlan> plan) override { tuner_.give(std::move(plan)); }
  const VerifiedPlan& plan_for(const Call& call) override { fail(ErrorCode::kInternal, to_text(call)); }
  std::string launch_for(const Call&) override { return "by kernels"; }
  void finish() override {}
  void poll_reports() override {}
  void throw_if_failed() const override {
    if (state_.has_failed()) throw *state_.failure();
  }
  void stop_waiting() override {}
  int device() const override { return 0; }
  size_t device_bytes() const override { return 0; }
  uint64_t zero_copy_calls() const override { return 0; }
  size_t mapped_buffers() const override { return 0; }

 private:
  static RankMachine with_gpus(RankMachine machine) {
    machine.gpus = GpuFacts{};
    return machine;
  }

  DeviceCalls state_;
  Tuner tuner_;
};

}  // namespace

void DeviceBackend::check_device(int) {}

std::unique_ptr<StagingDevice> DeviceBackend::staging_device(int, size_t bytes) {
  return std::make_unique<test::FakeStaging>(bytes);
}

std::unique_ptr<ReduceDevice> DeviceBackend::reduce_device(Bootstrap& on_host, std::vector<int> ranks, int,
                                                           const Settings& settings) {
  return std::make_unique<test::FakeReduces>(on_host, std::move(ranks), settings.scratch_bytes);
}

std::unique_ptr<DeviceBackend> DeviceBackend::create(Bootstrap& bootstrap, int, const Settings& settings,
                                                     std::shared_ptr<Segment> segment, Peers peers,
                                                     const AgreedTopology& topology) {
  const std::vector<GpuIdentity> gpus(static_cast<size_t>(bootstrap.size()));
  return std::make_unique<FakeKernels>(gpu_machine(topology, gpus, true, settings), std::move(segment),
                                       bootstrap.rank(), std::move(peers), settings);
}

std::vector<std::unique_ptr<DeviceBackend>> DeviceBackend::in_process(std::span<const int> devices,
                                                                      const Settings& settings,
                                                                      const std::shared_ptr<Segment>& segment,
                                                                      const AgreedTopology& topology) {
  const std::vector<GpuIdentity> gpus(devices.size());
  std::vector<std::unique_ptr<DeviceBackend>> ends;
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    Peers peers(std::vector<int>(devices.size(), getpid()));
    ends.push_back(std::make_unique<FakeKernels>(gpu_machine(topology, gpus, true, settings), segment,
                                                 static_cast<int>(rank), std::move(peers), settings));
  }
  return ends;
}

}  // namespace plait
