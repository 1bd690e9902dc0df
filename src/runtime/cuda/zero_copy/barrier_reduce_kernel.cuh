// Kernel: a reduce between two barriers.
#pragma once

#include "runtime/cuda/device/combine_vectors.cuh"
#include "runtime/cuda/zero_copy/barrier_reduce_kernel.hpp"
#include "runtime/cuda/zero_copy/between_barriers.cuh"

namespace plait {

template <DataType type, bool is_aligned>
class InputReduce {
 public:
  using Vector = Pack<type, uint4>;
  using Storage = typename Vector::Storage;
  using Accumulator = typename Vector::Accumulator;

  __device__ explicit InputReduce(const BarrierReduceLaunch& launch) : launch_(launch) {}

  __device__ void run() const {
    const uint64_t vectors = launch_.elements / Vector::kCount;
    Range range = {0, vectors};
    if (!is_aligned) range = vectors < 2 ? Range{0, 0} : Range{1, vectors - 1};  // see load_vectors()
    range.first = min(range.last, range.first + to_line(launch_.from[0] + range.first * sizeof(uint4)));
    switch (launch_.sources) {
      case 2:
        reduce_vectors<2, kAtOnce / 2>(range);
        break;
      case 4:
        reduce_vectors<4, kAtOnce / 4>(range);
        break;
      case 8:
        reduce_vectors<8, kOfEight>(range);
        break;
      default:
        reduce_vectors<0, kOfMany>(range);
    }
    reduce_elements(range);
  }

 private:
  struct Range {
    uint64_t first, last;  // `last` is excluded
  };

  // How many loads of a thread are under way at once: as many as registers hold, since few CTAs have to keep a link
  // busy. If sources are loaded one after the other, registers also hold their wide sums. On newer GPUs the code for
  // some types takes more registers, on older GPUs the code for 8-bit floats does.
  static constexpr bool kTakesMore = sizeof(Storage) == 2 || std::is_same_v<Storage, double>;
  static constexpr int kAligned = kConvertsSlowly<Vector> || (kHoldsMore && kTakesMore) ? 8 : 16;
  static constexpr int kAtOnce = is_aligned ? kAligned : Vector::kCount > 8 ? 4 : 8;
  static constexpr int kOfEight = kAtOnce < 8 ? 1 : kAtOnce / 8;
  static constexpr int kOfMany = Vector::kCount > 4 ? 1 : kAtOnce / 4;

  // How many vectors come before the next 128-byte line, so that warps load whole lines. Most often all inputs have the
  // same alignment.
  __device__ static uint64_t to_line(const std::byte* address) {
    return -reinterpret_cast<uintptr_t>(address) % kLinkLineBytes / sizeof(uint4);
  }
  __device__ uint64_t thread() const { return uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
  __device__ uint64_t threads() const { return uint64_t{gridDim.x} * blockDim.x; }

  template <int kSources, int kVectors>
  __device__ void reduce_vectors(Range range) const {
    const auto stride = static_cast<uint32_t>(threads());
    const uint32_t in_warp = threadIdx.x % kWarpThreads;  // a warp's threads stay together, for store_vectors()
    for (uint64_t i = range.first + thread() - in_warp; i < range.last; i += threads() * kVectors) {
      // Counted from vector i on, since 32 bits may not hold all numbers.
      const auto last = static_cast<uint32_t>(min(range.last - i, threads() * kVectors));
      const uint64_t offset = i * sizeof(uint4);
      const auto source = [this, offset](int s) {
        const std::byte* const from = launch_.from[s] + offset;
        __builtin_assume(__isGlobal(from));
        return from;
      };
      Vector results[kVectors];
      combine_vectors<is_aligned, kSources>(launch_.op, static_cast<int>(launch_.sources), launch_.divisor, source,
                                            in_warp, stride, last, results);
      store_vectors<is_aligned>(launch_.to + offset, in_warp, stride, last, results);
    }
  }

  // Reduces the elements outside these vectors.
  __device__ void reduce_elements(Range done) const {
    const uint64_t gap = done.first * Vector::kCount, gap_elements = (done.last - done.first) * Vector::kCount;
#pragma unroll 1
    for (uint64_t left = thread(); left < launch_.elements - gap_elements; left += threads()) {
      const uint64_t i = left < gap ? left : left + gap_elements;
      const Accumulator result = combine_one_by_one(launch_.op, static_cast<int>(launch_.sources), launch_.divisor,
                                                    [this, i](int s) { return element(s, i); });
      reinterpret_cast<Storage*>(launch_.to)[i] = DeviceType<type>::narrow(result);
    }
  }

  __device__ Accumulator element(int s, uint64_t i) const {
    return DeviceType<type>::widen(reinterpret_cast<const Storage*>(launch_.from[s])[i]);
  }

  const BarrierReduceLaunch& launch_;
};

template <DataType type, bool is_aligned>
__global__ void __launch_bounds__(kBarrierReduceThreads, 1)
    run_barrier_reduce(const __grid_constant__ BarrierReduceLaunch launch) {
  between_barriers<PeersThen::kRead>(launch, [&launch] { InputReduce<type, is_aligned>(launch).run(); });
}

template <DataType type>
const void* barrier_reduce_kernel_of(bool is_aligned) {
  return is_aligned ? reinterpret_cast<const void*>(&run_barrier_reduce<type, true>)
                    : reinterpret_cast<const void*>(&run_barrier_reduce<type, false>);
}

}  // namespace plait
