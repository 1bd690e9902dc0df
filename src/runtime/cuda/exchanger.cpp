#include "runtime/cuda/exchanger.hpp"

#include <algorithm>

#include "runtime/cuda/driver.hpp"
#include "runtime/cuda/exchange_program.hpp"

namespace plait {
namespace {

constexpr const char* kLaunching = "launching an exchange";
constexpr uint32_t kThreadBytes = 16;  // that a thread copies at once

// Enough to copy a piece at once, as far as there are so many, and the warp that signals.
uint32_t threads_for(uint32_t piece_bytes) {
  const uint32_t warps = (piece_bytes + kThreadBytes * kWarpThreads - 1) / (kThreadBytes * kWarpThreads);
  return std::clamp((warps + 1) * kWarpThreads, 2 * kWarpThreads, kMostExchangeThreads);
}

}  // namespace

Exchanger::Exchanger(const DeviceRank& self, StrandFailure* failures, const ChannelShape& shape)
    : self_(self), failures_(failures), shape_(shape) {
  check_cuda(cudaMalloc(&state_, sizeof(MessageState)), "memory for the state of messages");
  check_cuda(cudaMemset(state_, 0, sizeof(MessageState)), "clearing the state of messages");
  load_kernel(exchange_kernel());
}

Exchanger::~Exchanger() { cudaFree(state_); }

void Exchanger::enqueue(std::span<const PeerMessage> messages, cudaStream_t stream) const {
  enqueue_own(messages, stream);
  launch_parts(messages, [&](ExchangeLaunch& launch, dim3 grid, dim3 block) {
    void* arguments[] = {&launch};
    check_cuda(cudaLaunchKernel(exchange_kernel(), grid, block, arguments, 0, stream), kLaunching);
  });
}

void Exchanger::enqueue(std::span<const PeerMessage> messages, Branch& branch) const {
  launch_parts(messages, [&](ExchangeLaunch& launch, dim3 grid, dim3 block) {
    branch.launch(exchange_kernel(), grid, block, &launch, kLaunching);
  });
}

template <class Enqueue>
void Exchanger::launch_parts(std::span<const PeerMessage> messages, const Enqueue& enqueue) const {
  for (const ExchangePart& part : divide(messages, self_.rank, self_.ranks, shape_)) {
    ExchangeLaunch launch = {};
    launch.self = self_;
    launch.state = state_;
    launch.failures = failures_;
    launch.shape = shape_;
    std::copy(part.queues.begin(), part.queues.end(), launch.queues);
    std::copy(part.messages.begin(), part.messages.end(), launch.messages);
    const dim3 grid(part.strands, static_cast<unsigned>(part.queues.size()));
    enqueue(launch, grid, dim3(threads_for(part.piece_bytes)));
  }
}

void Exchanger::enqueue_own(std::span<const PeerMessage> messages, cudaStream_t stream) const {
  for (const auto& [send, receive] : own_messages(messages, self_.rank)) {
    if (send->count == 0 || send->buffer == receive->buffer) continue;
    check_cuda(cudaMemcpyAsync(receive->buffer, send->buffer, send->bytes(), cudaMemcpyDeviceToDevice, stream),
               "copying what a rank sends itself");
  }
}

}  // namespace plait
