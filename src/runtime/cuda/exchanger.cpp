#include "runtime/cuda/exchanger.hpp"

#include <utility>

#include "runtime/cuda/driver.hpp"
#include "runtime/cuda/early_launch.hpp"
#include "runtime/cuda/exchange_program.hpp"

namespace plait {
namespace {

constexpr const char* kLaunching = "launching an exchange";

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
  load_kernel(exchange_kernel());
}

void Exchanger::enqueue(std::span<const PeerMessage> messages, cudaStream_t stream) const {
  const std::vector<OwnMessage> own = own_messages(messages, self_.rank);
  const bool with_others = go_with_others(own, messages.size());
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
    launch.state = state_.get();
    launch.failures = failures_;
    launch.shape = shape_;
    const ExchangeGrid grid = prepare_exchange(part, std::exchange(own, {}), launch);
    enqueue(launch, dim3(grid.ctas, grid.rows), dim3(grid.threads));
  }
}

}  // namespace plait
