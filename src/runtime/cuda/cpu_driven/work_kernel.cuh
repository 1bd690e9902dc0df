// The loop of the kernel of CPU-driven plans (NVG-50: the papers' Algorithm 1 with its repairs).
#pragma once

#include "runtime/cuda/cpu_driven/perform_work.cuh"
#include "runtime/cuda/cpu_driven/work_kernel.hpp"
#include "runtime/cuda/persistent/copy_argument.cuh"
#include "runtime/cuda/persistent/request_poller.cuh"

namespace plait {

// Every thread takes the same requests. The barrier after a request is ahead of its answer: all of the CTA's stores are
// done, and nobody reads the request any more.
__global__ void __launch_bounds__(kMostThreads, 1) run_work(const __grid_constant__ WorkLaunch launch) {
  struct alignas(alignof(WorkRequest)) RequestPiece {
    uint64_t words[alignof(WorkRequest) / sizeof(uint64_t)];
  };
  constexpr int kPieces = sizeof(WorkRequest) / sizeof(RequestPiece);
  auto& work = *reinterpret_cast<WorkRequest*>(ptx::shared_array<RequestPiece, kPieces>());
  uint64_t& word = *ptx::shared_array<uint64_t, 1>();
  const bool polls = blockIdx.x == 0;
  const uint64_t launches_before = launch.number - 1;
  const RequestPoller poller(launch);
  for (uint64_t number = launch.first;; ++number) {
    if (threadIdx.x == 0) word = take(poller, launch, polls, number);
    __syncthreads();
    const Request request = request_in(word);
    number += lateness(word, number + launches_before);
    if (request.terminates) return;
    WorkRequest* const slot = &launch.requests[request.slot];
    if (polls) copy_argument(&work, &launch.host_requests[request.slot]);
    if (polls && gridDim.x > 1) {
      __syncthreads();
      copy_argument(slot, &work);
      __syncthreads();
      if (threadIdx.x == 0) hand_on(*launch.device, request, number + launches_before);
    }
    if (!polls) copy_argument(&work, slot);
    __syncthreads();
    perform_work(work, launch.first_share + blockIdx.x, launch.shares);
    __syncthreads();
    if (threadIdx.x == 0) finish_share(launch, request, number);
  }
}

}  // namespace plait
