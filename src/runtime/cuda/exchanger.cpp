#include "runtime/cuda/exchanger.hpp"

#include <algorithm>
#include <utility>

#include "runtime/cuda/driver.hpp"
#include "runtime/cuda/early_launch.hpp"
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

// Less is copied by the launch of the other messages before a copy of its own would have begun.
bool go_with_others(std::span<const OwnMessage> own) {
  constexpr uint64_t kMostBytes = 1 << 20;
  uint64_t bytes = 0;
  for (const auto& [send, receive] : own) bytes += send->bytes();
  return own.size() <= kMostOwnCopies && bytes <= kMostBytes;
}

// A row of CTAs for them, at most as many as the rows of messages may have.
void add_own(std::span<const OwnMessage> own, ExchangeLaunch& launch, dim3& grid, uint32_t& piece_bytes) {
  constexpr uint64_t kWorthACta = 32 << 10, kMostCtas = 8;
  uint64_t longest = 0;
  for (const auto& [send, receive] : own) {
    if (send->count == 0 || send->buffer == receive->buffer) continue;
    launch.own[launch.own_count++] = {reinterpret_cast<uint64_t>(send->buffer),
                                      reinterpret_cast<uint64_t>(receive->buffer), send->bytes()};
    longest = std::max(longest, send->bytes());
  }
  if (launch.own_count == 0) return;
  const uint64_t most = std::min<uint64_t>(kMostCtas, launch.shape.strands);
  launch.own_ctas = static_cast<uint32_t>(std::clamp<uint64_t>(longest / kWorthACta, 1, most));
  ++grid.y;
  grid.x = std::max(grid.x, launch.own_ctas);
  piece_bytes = std::max(piece_bytes, static_cast<uint32_t>(longest / launch.own_ctas));
}

void enqueue_own(std::span<const OwnMessage> own, cudaStream_t stream) {
  for (const auto& [send, receive] : own) {
    if (send->count == 0 || send->buffer == receive->buffer) continue;
    check_cuda(cudaMemcpyAsync(receive->buffer, send->buffer, send->bytes(), cudaMemcpyDeviceToDevice, stream),
               "copying what a rank sends itself");
  }
}

}  // namespace

Exchanger::Exchanger(const DeviceRank& self, StrandFailure* failures, const ChannelShape& shape, bool early)
    : self_(self), failures_(failures), shape_(shape), early_(early) {
  check_cuda(cudaMalloc(&state_, sizeof(MessageState)), "memory for the state of messages");
  check_cuda(cudaMemset(state_, 0, sizeof(MessageState)), "clearing the state of messages");
  load_kernel(exchange_kernel());
}

Exchanger::~Exchanger() { cudaFree(state_); }

void Exchanger::enqueue(std::span<const PeerMessage> messages, cudaStream_t stream) const {
  const std::vector<OwnMessage> own = own_messages(messages, self_.rank);
  const bool with_others = 2 * own.size() < messages.size() && go_with_others(own);
  if (!with_others) enqueue_own(own, stream);
  const std::span<const OwnMessage> beside = with_others ? std::span(own) : std::span<const OwnMessage>();
  launch_parts(messages, beside, [&](ExchangeLaunch& launch, dim3 grid, dim3 block) {
    launch_kernel(exchange_kernel(), grid, block, &launch, stream, early_, kLaunching);
  });
}

void Exchanger::enqueue(std::span<const PeerMessage> messages, Branch& branch) const {
  launch_parts(messages, {}, [&](ExchangeLaunch& launch, dim3 grid, dim3 block) {
    branch.launch(exchange_kernel(), grid, block, &launch, kLaunching);
  });
}

template <class Enqueue>
void Exchanger::launch_parts(std::span<const PeerMessage> messages, std::span<const OwnMessage> own,
                             const Enqueue& enqueue) const {
  for (const ExchangePart& part : divide(messages, self_.rank, self_.ranks, shape_)) {
    ExchangeLaunch launch = {};
    launch.self = self_;
    launch.state = state_;
    launch.failures = failures_;
    launch.shape = shape_;
    std::copy(part.queues.begin(), part.queues.end(), launch.queues);
    std::copy(part.messages.begin(), part.messages.end(), launch.messages);
    dim3 grid(part.strands, static_cast<unsigned>(part.queues.size()));
    uint32_t piece_bytes = part.piece_bytes;
    add_own(std::exchange(own, {}), launch, grid, piece_bytes);
    enqueue(launch, grid, dim3(threads_for(piece_bytes)));
  }
}

}  // namespace plait
