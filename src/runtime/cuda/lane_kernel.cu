// The kernel behind launch_lanes.
//
// Ordering, per CTA: a signal is a barrier of the CTA, then one release store at system scope, so that every thread's
// earlier stores are visible to whoever acquires it; a wait is one thread's acquire loads, then a barrier. Nothing
// weaker is right, since the data was written by all threads of one CTA and is read by all threads of another.
#include <cuda_runtime.h>

#include <cuda/atomic>
#include <type_traits>

#include "base/error.hpp"
#include "runtime/cuda/device_types.cuh"
#include "runtime/cuda/lane_kernel.hpp"
#include "runtime/lane_loop.hpp"

namespace plait {
namespace {

using SignalWord = cuda::atomic_ref<uint64_t, cuda::thread_scope_system>;

template <class T>
__device__ T combine(ReduceOp op, T a, T b) {
  // Integers wrap: signed overflow is defined where the sum is taken without sign.
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    if (op == ReduceOp::kSum || op == ReduceOp::kAverage)
      return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    if (op == ReduceOp::kProduct) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    return op == ReduceOp::kMax ? (a < b ? b : a) : (b < a ? b : a);
  } else {
    if (op == ReduceOp::kSum || op == ReduceOp::kAverage) return a + b;
    if (op == ReduceOp::kProduct) return a * b;
    // NaN wins, and -0 is less than +0, as on the host.
    if (isnan(a) || isnan(b)) return static_cast<T>(NAN);
    if (a == b) return (op == ReduceOp::kMax) == static_cast<bool>(signbit(a)) ? b : a;
    return (op == ReduceOp::kMax) == (a < b) ? b : a;
  }
}

// What advance_lane needs to perform a lane's strand on one CTA.
template <DataType type>
class CtaEngine {
 public:
  using Facts = DeviceType<type>;
  using Storage = typename Facts::Storage;
  using Accumulator = typename Facts::Accumulator;

  __device__ CtaEngine(const LaneLaunch& launch, const DeviceLane& lane, int lane_index, int cta)
      : launch_(launch), lane_(lane), lane_index_(lane_index), cta_(cta) {}

  __device__ void fold(const BoundOperation& operation) const {
    const size_t elements = operation.elements;
    const size_t part = (elements + launch_.shape.ctas_per_lane - 1) / launch_.shape.ctas_per_lane;
    const size_t first = min(elements, part * cta_);
    const size_t last = min(elements, first + part);
    const BoundPlace* destinations = lane_.places + operation.first_place;
    const BoundPlace* sources = destinations + operation.destination_count;
    const bool source_is_wide = operation.has_wide_source && lane_.source_is_wide[operation.first_flag] != 0;
    if (operation.source_count == 1 && source_is_wide == operation.result_is_wide && operation.divisor == 0) {
      // A copy keeps every bit, also of a NaN, which widening and rounding would not.
      if (operation.result_is_wide) {
        copy<Accumulator>(operation, destinations, sources[0], first, last);
      } else {
        copy<Storage>(operation, destinations, sources[0], first, last);
      }
      return;
    }
    for (size_t i = first + threadIdx.x; i < last; i += blockDim.x) {
      Accumulator value = load(operation, sources, 0, i);
      for (int s = 1; s < operation.source_count; ++s) {
        value = combine(launch_.op, value, load(operation, sources, s, i));
      }
      if (operation.divisor > 0) value = static_cast<Accumulator>(value / static_cast<Accumulator>(operation.divisor));
      for (int d = 0; d < operation.destination_count; ++d) {
        std::byte* base = lane_.bases[destinations[d].base] + destinations[d].offset;
        if (operation.result_is_wide) {
          reinterpret_cast<Accumulator*>(base)[i] = value;
        } else {
          reinterpret_cast<Storage*>(base)[i] = Facts::narrow(value);
        }
      }
    }
  }

  __device__ void signal(const BoundOperation& operation) const {
    __syncthreads();
    if (threadIdx.x == 0) {
      word(lane_.signals[operation.peer_rank], operation).store(launch_.signal_value, cuda::std::memory_order_release);
    }
  }

  // Bounded: false once the time is over or another CTA has given up.
  __device__ bool wait(const BoundOperation& operation) const {
    __shared__ bool came;
    if (threadIdx.x == 0) came = poll(operation);
    __syncthreads();
    const bool result = came;
    __syncthreads();  // nobody may start the next wait while somebody still reads `came`
    return result;
  }

 private:
  template <class Element>
  __device__ void copy(const BoundOperation& operation, const BoundPlace* destinations, const BoundPlace& source,
                       size_t first, size_t last) const {
    const auto* from = reinterpret_cast<const Element*>(lane_.bases[source.base] + source.offset);
    for (size_t i = first + threadIdx.x; i < last; i += blockDim.x) {
      const Element value = from[i];
      for (int d = 0; d < operation.destination_count; ++d) {
        reinterpret_cast<Element*>(lane_.bases[destinations[d].base] + destinations[d].offset)[i] = value;
      }
    }
  }

  __device__ Accumulator load(const BoundOperation& operation, const BoundPlace* sources, int s, size_t i) const {
    const std::byte* base = lane_.bases[sources[s].base] + sources[s].offset;
    if (operation.has_wide_source && lane_.source_is_wide[operation.first_flag + s] != 0) {
      return reinterpret_cast<const Accumulator*>(base)[i];
    }
    return Facts::widen(reinterpret_cast<const Storage*>(base)[i]);
  }

  __device__ SignalWord word(std::byte* signals, const BoundOperation& operation) const {
    return SignalWord(reinterpret_cast<uint64_t*>(signals + operation.word_offset)[cta_]);
  }

  __device__ bool poll(const BoundOperation& operation) const {
    const SignalWord awaited = word(lane_.own_signals, operation);
    uint64_t start = 0;
    for (int looks = 0;; ++looks) {
      const uint64_t seen = awaited.load(cuda::std::memory_order_acquire);
      if (seen == launch_.signal_value) return true;
      if (looks % 256 != 255) continue;
      cuda::atomic_ref<uint32_t, cuda::thread_scope_system> state(launch_.failure->state);
      if (state.load(cuda::std::memory_order_relaxed) != 0) return false;
      const uint64_t now = nanoseconds();
      if (start == 0) start = now;
      if (now - start <= launch_.wait_nanoseconds) continue;
      uint32_t none = 0;
      if (state.compare_exchange_strong(none, 1, cuda::std::memory_order_relaxed)) {
        launch_.failure->lane = lane_index_;
        launch_.failure->cta = cta_;
        launch_.failure->operation = operation.operation;
        launch_.failure->expected = launch_.signal_value;
        launch_.failure->seen = seen;
      }
      return false;
    }
  }

  static __device__ uint64_t nanoseconds() {
    uint64_t now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
  }

  const LaneLaunch& launch_;
  const DeviceLane& lane_;
  const int lane_index_;
  const int cta_;
};

template <DataType type>
__global__ void run_lanes(const __grid_constant__ LaneLaunch launch) {
  const int lane_index = static_cast<int>(blockIdx.x) / launch.shape.ctas_per_lane;
  const int cta = static_cast<int>(blockIdx.x) % launch.shape.ctas_per_lane;
  const DeviceLane lane = launch.lanes[lane_index];
  CtaEngine<type> engine(launch, lane, lane_index, cta);
  int next = 0;
  advance_lane(lane.operations, lane.operation_count, next, engine);
}

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) fail(ErrorCode::kSystem, what, ": ", cudaGetErrorString(error));
}

template <DataType type>
void launch_typed(const LaneLaunch& launch, cudaStream_t stream) {
  const int ctas = launch.lane_count * launch.shape.ctas_per_lane;
  const void* kernel = reinterpret_cast<const void*>(&run_lanes<type>);
  int device = 0, processors = 0, resident = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, launch.shape.threads_per_cta, 0),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  if (ctas > resident * processors) {
    fail(ErrorCode::kResources, launch.lane_count, " lanes of ", launch.shape.ctas_per_lane, " CTAs of ",
         launch.shape.threads_per_cta, " threads wait for each other, but the GPU holds only ", resident * processors,
         " such CTAs at once; use fewer CTAs a lane");
  }
  LaneLaunch argument = launch;
  void* arguments[] = {&argument};
  // Cooperative: either all CTAs are resident, or the launch is refused.
  check(cudaLaunchCooperativeKernel(kernel, dim3(ctas), dim3(launch.shape.threads_per_cta), arguments, 0, stream),
        "launch of the lane kernel");
}

}  // namespace

void launch_lanes(const LaneLaunch& launch, void* stream) {
  const auto s = static_cast<cudaStream_t>(stream);
  switch (launch.type) {
    case DataType::kInt8:
      return launch_typed<DataType::kInt8>(launch, s);
    case DataType::kUint8:
      return launch_typed<DataType::kUint8>(launch, s);
    case DataType::kInt16:
      return launch_typed<DataType::kInt16>(launch, s);
    case DataType::kUint16:
      return launch_typed<DataType::kUint16>(launch, s);
    case DataType::kInt32:
      return launch_typed<DataType::kInt32>(launch, s);
    case DataType::kUint32:
      return launch_typed<DataType::kUint32>(launch, s);
    case DataType::kInt64:
      return launch_typed<DataType::kInt64>(launch, s);
    case DataType::kUint64:
      return launch_typed<DataType::kUint64>(launch, s);
    case DataType::kFloat16:
      return launch_typed<DataType::kFloat16>(launch, s);
    case DataType::kBfloat16:
      return launch_typed<DataType::kBfloat16>(launch, s);
    case DataType::kFloat32:
      return launch_typed<DataType::kFloat32>(launch, s);
    case DataType::kFloat64:
      return launch_typed<DataType::kFloat64>(launch, s);
    case DataType::kFloat8E4M3:
      return launch_typed<DataType::kFloat8E4M3>(launch, s);
    case DataType::kFloat8E5M2:
      return launch_typed<DataType::kFloat8E5M2>(launch, s);
  }
}

}  // namespace plait
