// The lane kernel on one GPU: several ranks' lanes in one launch run plans of the registry on exact inputs. A program
// without a test framework, since machines with GPUs often have none. Exit status 77: no GPU, nothing was tested.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "base/error.hpp"
#include "bench/exact_input.hpp"
#include "plan/verifier.hpp"
#include "runtime/bound_plan.hpp"
#include "runtime/cuda/lane_kernel.hpp"

namespace plait {
namespace {

constexpr int kSkipped = 77;

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) fail(ErrorCode::kSystem, what, ": ", cudaGetErrorString(error));
}

// Device memory with the values of a vector.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    check(cudaMalloc(&data_, std::max<size_t>(1, count * sizeof(T))), "cudaMalloc");
    check(cudaMemset(data_, 0xee, count * sizeof(T)), "cudaMemset");
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    check(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  DeviceArray(DeviceArray&& other) noexcept : data_(std::exchange(other.data_, nullptr)), count_(other.count_) {}
  ~DeviceArray() { cudaFree(data_); }
  T* get() const { return data_; }
  void clear() { check(cudaMemset(data_, 0, count_ * sizeof(T)), "cudaMemset"); }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    check(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t count_ = 0;
};

constexpr size_t kScratchBytes = 1 << 20;

// Everything that one rank has on the GPU for one slice.
struct DeviceRank {
  DeviceRank(const BoundSlice& slice, size_t input_bytes, size_t output_bytes, size_t signal_bytes)
      : input(input_bytes),
        output(output_bytes),
        scratch(kScratchBytes),
        signals(signal_bytes),
        places(slice.places),
        wide(slice.source_is_wide) {
    signals.clear();
    for (const auto& lane : slice.lanes) operations.emplace_back(lane);
  }
  DeviceArray<std::byte> input, output, scratch, signals;
  DeviceArray<BoundPlace> places;
  DeviceArray<uint8_t> wide;
  std::vector<DeviceArray<BoundOperation>> operations;
};

// Runs a call on `ranks` ranks of one GPU, `epochs` times on the same memory; returns how many elements were wrong.
size_t run_case(const std::string& algorithm, const Call& call, int ranks, const LaneLaunchShape& shape, int epochs) {
  AlgorithmArguments arguments;
  arguments.collective = call.collective;
  arguments.ranks = ranks;
  arguments.root = call.root;
  arguments.engine = Engine::kSm;
  const VerifiedPlan plan = verify(make_plan(algorithm, arguments));
  BindLimits limits;
  limits.scratch_bytes = kScratchBytes;
  limits.signals = 4096;
  limits.signal_stride = signal_stride(shape);
  limits.chunk_by_chunk = true;

  std::vector<BoundPlan> bound;
  std::vector<DeviceRank> devices;
  const size_t bytes = message_bytes(call, ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    bound.push_back(bind(plan, call, rank, limits));
    if (bound[rank].slices != 1) fail(ErrorCode::kInternal, "the test wants messages of one slice");
    devices.emplace_back(bound[rank].last, bytes, bytes,
                         static_cast<size_t>(plan.plan().ranks[rank].signals) * limits.signal_stride);
  }
  std::vector<std::byte*> signals;
  for (const DeviceRank& device : devices) signals.push_back(device.signals.get());
  const DeviceArray<std::byte*> all_signals(signals);
  std::vector<DeviceArray<std::byte*>> tables;
  std::vector<DeviceLane> lanes;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::byte*> bases = {devices[rank].input.get(), devices[rank].output.get()};
    for (const DeviceRank& device : devices) bases.push_back(device.scratch.get());
    tables.emplace_back(bases);
    for (size_t l = 0; l < devices[rank].operations.size(); ++l) {
      lanes.push_back({devices[rank].operations[l].get(), static_cast<int>(bound[rank].last.lanes[l].size()),
                       devices[rank].places.get(), devices[rank].wide.get(), tables[rank].get(), all_signals.get(),
                       devices[rank].signals.get()});
    }
  }
  const DeviceArray<DeviceLane> device_lanes(lanes);
  DeviceArray<DeviceFailure> failure(1);

  size_t wrong = 0;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<std::byte> input(bytes);
      fill_input(call, ranks, rank, epoch, input.data());
      check(cudaMemcpy(devices[rank].input.get(), input.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    }
    failure.clear();
    LaneLaunch launch;
    launch.lanes = device_lanes.get();
    launch.lane_count = static_cast<int>(lanes.size());
    launch.type = call.type;
    launch.op = call.op;
    launch.signal_value = static_cast<uint64_t>(epoch);
    launch.wait_nanoseconds = 2'000'000'000;
    launch.failure = failure.get();
    launch.shape = shape;
    launch_lanes(launch, nullptr);
    check(cudaDeviceSynchronize(), "the lane kernel");
    const DeviceFailure seen = failure.read()[0];
    if (seen.state != 0) {
      fail(ErrorCode::kTimeout, algorithm, " over ", ranks, " ranks: lane ", seen.lane, ", CTA ", seen.cta,
           ", operation ", seen.operation, " waited for signal ", seen.expected, ", saw ", seen.seen);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      wrong += count_wrong(call, ranks, rank, epoch, devices[rank].output.read().data());
    }
  }
  return wrong;
}

// A plan that misses a signal must end by itself, with a report.
bool missing_signal_ends() {
  BoundOperation wait;
  wait.kind = OpKind::kWait;
  wait.operation = 7;
  const DeviceArray<BoundOperation> operations(std::vector<BoundOperation>{wait});
  DeviceArray<std::byte> signals(1024);
  signals.clear();
  DeviceLane lane;
  lane.operations = operations.get();
  lane.operation_count = 1;
  lane.own_signals = signals.get();
  const DeviceArray<DeviceLane> lanes(std::vector<DeviceLane>{lane});
  DeviceArray<DeviceFailure> failure(1);
  failure.clear();
  LaneLaunch launch;
  launch.lanes = lanes.get();
  launch.lane_count = 1;
  launch.signal_value = 5;
  launch.wait_nanoseconds = 50'000'000;
  launch.failure = failure.get();
  launch_lanes(launch, nullptr);
  check(cudaDeviceSynchronize(), "the lane kernel");
  const DeviceFailure seen = failure.read()[0];
  return seen.state == 1 && seen.operation == 7 && seen.expected == 5 && seen.seen == 0;
}

int run() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::puts("skipped: no GPU");
    return kSkipped;
  }
  int passed = 0, failed = 0;
  const auto expect = [&](bool good, const std::string& what) {
    ++(good ? passed : failed);
    if (!good) std::printf("FAILED: %s\n", what.c_str());
  };
  const struct {
    const char* algorithm;
    Collective collective;
  } kinds[] = {{"one_shot", Collective::kAllReduce},
               {"flat", Collective::kAllReduce},
               {"ring", Collective::kAllReduce},
               {"recursive_doubling", Collective::kAllReduce},
               {"hierarchical_ring", Collective::kAllReduce},
               {"flat", Collective::kReduceScatter},
               {"flat", Collective::kAllGather},
               {"flat", Collective::kReduce},
               {"binomial", Collective::kBroadcast}};
  for (const auto& kind : kinds) {
    for (const int ranks : {1, 2, 3, 4, 8}) {
      for (int type = 0; type < kDataTypeCount; ++type) {
        for (int op = 0; op < (reduces(kind.collective) ? kReduceOpCount : 1); ++op) {
          for (const size_t count : {1, 33, 1000, 4099}) {
            const Call call{kind.collective, static_cast<DataType>(type), static_cast<ReduceOp>(op),
                            has_root(kind.collective) ? ranks - 1 : 0, count};
            const size_t wrong = run_case(kind.algorithm, call, ranks, {2, 128}, 2);
            expect(wrong == 0, join(kind.algorithm, " ", to_text(call), " over ", ranks, " ranks: ", wrong, " wrong"));
          }
        }
      }
    }
  }
  expect(missing_signal_ends(), "a wait without a signal should end with a report");
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace plait

int main() {
  try {
    return plait::run();
  } catch (const std::exception& error) {
    std::printf("FAILED: %s\n", error.what());
    return 1;
  }
}
