// The multiplication of pre-multiplied sums: one kernel per type, bound by memory bandwidth.
#include <algorithm>
#include <bit>

#include "runtime/cuda/device/elements.cuh"
#include "runtime/cuda/driver/driver.hpp"
#include "runtime/cuda/kernels/by_type.hpp"
#include "runtime/cuda/kernels/scale.hpp"

namespace plait {
namespace {

constexpr int kThreads = 256;
// Per SM: enough for the loads under way to fill the memory's bandwidth.
constexpr int kMostCtas = 8;
// Vectors that a thread has under way at once.
constexpr int kAtOnce = 2;

struct ScaleLaunch {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  uint64_t elements = 0;
  uint64_t bits = 0;                // of the scalar
  const void* on_device = nullptr;  // if not null: the scalar is in device memory, and `bits` does not count
};

template <DataType type>
__device__ typename DeviceType<type>::Accumulator scalar_of(const ScaleLaunch& launch) {
  using Storage = typename DeviceType<type>::Storage;
  if (launch.on_device != nullptr) return DeviceType<type>::widen(*static_cast<const Storage*>(launch.on_device));
  Pack<type, uint64_t> pack(launch.bits);
  return DeviceType<type>::widen(pack.elements[0]);
}

template <DataType type>
__device__ typename DeviceType<type>::Storage product(typename DeviceType<type>::Storage element,
                                                      typename DeviceType<type>::Accumulator scalar) {
  return DeviceType<type>::narrow(combine_numbers(Multiply{}, DeviceType<type>::widen(element), scalar));
}

template <DataType type>
__device__ uint4 products(uint4 bits, typename DeviceType<type>::Accumulator scalar) {
  Pack<type, uint4> pack(bits);
#pragma unroll
  for (int i = 0; i < Pack<type, uint4>::kCount; ++i) pack.elements[i] = product<type>(pack.elements[i], scalar);
  return pack.bits;
}

// Scales vectors, with all threads of the launch. A thread's loads come before its stores, since the compiler could not
// move them there: for all it knows, the stores change what is loaded.
template <DataType type>
__device__ void scale_vectors(const uint4* input, uint4* output, uint64_t vectors,
                              typename DeviceType<type>::Accumulator scalar) {
  const uint64_t threads = uint64_t{gridDim.x} * kThreads;
  uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (; i + (kAtOnce - 1) * threads < vectors; i += kAtOnce * threads) {
    uint4 values[kAtOnce];
#pragma unroll
    for (int v = 0; v < kAtOnce; ++v) values[v] = input[i + v * threads];
#pragma unroll
    for (int v = 0; v < kAtOnce; ++v) output[i + v * threads] = products<type>(values[v], scalar);
  }
  for (; i < vectors; i += threads) output[i] = products<type>(input[i], scalar);
}

template <DataType type>
__global__ void __launch_bounds__(kThreads) scale_elements(const __grid_constant__ ScaleLaunch launch) {
  using Storage = typename DeviceType<type>::Storage;
  constexpr uint64_t kVector = sizeof(uint4) / sizeof(Storage);
  const auto scalar = scalar_of<type>(launch);
  const auto* const input = reinterpret_cast<const Storage*>(launch.input);
  auto* const output = reinterpret_cast<Storage*>(launch.output);
  const auto from = reinterpret_cast<uintptr_t>(input), to = reinterpret_cast<uintptr_t>(output);
  // Elements before the first aligned vector; all of them if input and output are never aligned at once.
  uint64_t head = (0 - from) % sizeof(uint4) / sizeof(Storage);
  if ((from ^ to) % sizeof(uint4) != 0 || head > launch.elements) head = launch.elements;
  const uint64_t vectors = (launch.elements - head) / kVector;
  scale_vectors<type>(reinterpret_cast<const uint4*>(input + head), reinterpret_cast<uint4*>(output + head), vectors,
                      scalar);
  const uint64_t single = launch.elements - vectors * kVector;
  for (uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < single; i += uint64_t{gridDim.x} * kThreads) {
    const uint64_t at = i < head ? i : i + vectors * kVector;
    output[at] = product<type>(input[at], scalar);
  }
}

}  // namespace

const void* scale_kernel(DataType type) {
  return by_type(type, [&]<DataType known>() { return reinterpret_cast<const void*>(&scale_elements<known>); });
}

void launch_scale(const Scalar& scalar, const void* input, void* output, size_t elements, int sm_count,
                  cudaStream_t stream) {
  if (elements == 0) return;
  const size_t bytes = elements * size_of(scalar.type);
  const size_t ctas = (bytes / sizeof(uint4) + kThreads) / kThreads;
  const auto most = static_cast<size_t>(std::max(sm_count, 1)) * kMostCtas;
  ScaleLaunch launch{static_cast<const std::byte*>(input), static_cast<std::byte*>(output), elements,
                     std::bit_cast<uint64_t>(scalar.value), scalar.on_device};
  void* arguments[] = {&launch};
  check_cuda(cudaLaunchKernel(scale_kernel(scalar.type), dim3(static_cast<unsigned>(std::min(ctas, most))),
                              dim3(kThreads), arguments, 0, stream),
             "launching the multiplication of a pre-multiplied sum");
}

}  // namespace plait
