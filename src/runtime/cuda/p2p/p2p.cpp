#include "runtime/cuda/p2p/p2p.hpp"

#include <utility>

#include "runtime/cuda/driver/driver.hpp"
#include "runtime/cuda/driver/pdl.hpp"
#include "runtime/cuda/p2p/p2p_program.hpp"

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

CudaP2p::CudaP2p(const DeviceRank& self, ChannelFailure* failures, const FifoShape& shape, bool pdl)
    : self_(self), failures_(failures), shape_(shape), pdl_(pdl) {
  load_kernel(p2p_kernel());
}

void CudaP2p::enqueue(std::span<const PeerMessage> messages, cudaStream_t stream) const {
  const std::vector<OwnMessage> own = own_messages(messages, self_.rank);
  const bool with_others = go_with_others(own, messages.size());
  if (!with_others) enqueue_own(own, stream);
  const std::span<const OwnMessage> own_copies = with_others ? std::span(own) : std::span<const OwnMessage>();
  launch_parts(messages, own_copies, [&](P2pLaunch& launch, dim3 grid, dim3 block) {
    launch_kernel(p2p_kernel(), grid, block, &launch, stream, pdl_, kLaunching);
  });
}

void CudaP2p::enqueue(std::span<const PeerMessage> messages, StreamFork& fork) const {
  launch_parts(messages, {}, [&](P2pLaunch& launch, dim3 grid, dim3 block) {
    fork.launch(p2p_kernel(), grid, block, &launch, kLaunching);
  });
}

template <class Enqueue>
void CudaP2p::launch_parts(std::span<const PeerMessage> messages, std::span<const OwnMessage> own,
                           const Enqueue& enqueue) const {
  for (const P2pPart& part : divide(messages, self_.rank, self_.ranks, shape_)) {
    P2pLaunch launch = {};
    launch.self = self_;
    launch.state = state_.get();
    launch.failures = failures_;
    launch.shape = shape_;
    const P2pGrid grid = prepare_p2p(part, std::exchange(own, {}), launch);
    enqueue(launch, dim3(grid.ctas, grid.rows), dim3(grid.threads));
  }
}

}  // namespace plait
