// The loop of the persistent kernel (NVG-50: the papers' Algorithm 1, with one CTA that polls for all).
#pragma once

#include "runtime/cuda/kernels/by_type.hpp"
#include "runtime/cuda/kernels/two_shot_kernel.cuh"
#include "runtime/cuda/persistent/copy_argument.cuh"
#include "runtime/cuda/persistent/request_poller.cuh"

namespace plait {

// Performs this CTA's share of a call, as the kernel that it names would. For all threads; false in some: given up.
template <DataType type>
__device__ __forceinline__ bool perform_call(const RequestedCall& call, unsigned ctas) {
  switch (call.kernel) {
    case CallKernel::kTwoShotLl1Aligned:
      return perform_two_shot<TwoShotLl<type, 1, true>>(call.launch, ctas);
    case CallKernel::kTwoShotLl2Aligned:
      return perform_two_shot<TwoShotLl<type, 2, true>>(call.launch, ctas);
    case CallKernel::kTwoShotLl4Aligned:
      return perform_two_shot<TwoShotLl<type, 4, true>>(call.launch, ctas);
    case CallKernel::kTwoShotLl1Any:
      return perform_two_shot<TwoShotLl<type, 1, kIsWord<type>>>(call.launch, ctas);
    default:
      return perform_two_shot<TwoShotLl<type, 4, kIsWord<type>>>(call.launch, ctas);
  }
}

// The kernel for sums (kSumType) of each type.
__device__ __forceinline__ bool perform_call(const RequestedCall& call, unsigned ctas) {
  switch (call.type) {
    case DataType::kInt8:
    case DataType::kUint8:
      return perform_call<DataType::kUint8>(call, ctas);
    case DataType::kInt16:
    case DataType::kUint16:
      return perform_call<DataType::kUint16>(call, ctas);
    case DataType::kInt32:
    case DataType::kUint32:
      return perform_call<DataType::kUint32>(call, ctas);
    case DataType::kInt64:
    case DataType::kUint64:
      return perform_call<DataType::kUint64>(call, ctas);
    case DataType::kFloat32:
      return perform_call<DataType::kFloat32>(call, ctas);
    case DataType::kFloat64:
      return perform_call<DataType::kFloat64>(call, ctas);
    case DataType::kFloat16:
      return perform_call<DataType::kFloat16>(call, ctas);
    case DataType::kBfloat16:
      return perform_call<DataType::kBfloat16>(call, ctas);
    case DataType::kFloat8E4M3:
      return perform_call<DataType::kFloat8E4M3>(call, ctas);
    case DataType::kFloat8E5M2:
      return perform_call<DataType::kFloat8E5M2>(call, ctas);
  }
  return false;
}

// Every thread takes the same requests. One that was given up gets no answer: the communicator has failed.
__global__ void __launch_bounds__(kMostThreads, 1) run_persistent(const __grid_constant__ PersistentLaunch launch) {
  struct alignas(alignof(RequestedCall)) ArgumentPiece {
    uint64_t words[alignof(RequestedCall) / sizeof(uint64_t)];
  };
  constexpr int kPieces = sizeof(RequestedCall) / sizeof(ArgumentPiece);
  auto& call = *reinterpret_cast<RequestedCall*>(ptx::shared_array<ArgumentPiece, kPieces>());
  uint64_t& word = *ptx::shared_array<uint64_t, 1>();
  const bool polls = blockIdx.x == 0;
  const uint64_t launches_before = launch.number - 1;
  const RequestPoller poller(launch);
  uint32_t slot_at_hand = kCallSlots;
  for (uint64_t number = launch.first;; ++number) {
    if (threadIdx.x == 0) word = take(poller, launch, polls, number);
    __syncthreads();
    const Request request = request_in(word);
    number += lateness(word, number + launches_before);
    if (request.terminates) return;
    RequestedCall* const slot = &launch.slots[request.slot];
    if (polls && request.is_new) {
      copy_argument(slot, &launch.host_slots[request.slot]);
      __syncthreads();
      if (threadIdx.x == 0) hand_on(*launch.device, request, number + launches_before);
    }
    bool is_good = true;
    if (blockIdx.x < request.ctas) {
      if (request.is_new || request.slot != slot_at_hand) {
        copy_argument(&call, slot);
        __syncthreads();
        slot_at_hand = request.slot;
      }
      is_good = perform_call(call, request.ctas);
    }
    is_good = __syncthreads_and(is_good);
    if (threadIdx.x == 0 && is_good && blockIdx.x < request.ctas) finish_share(launch, request, number);
  }
}

}  // namespace plait
