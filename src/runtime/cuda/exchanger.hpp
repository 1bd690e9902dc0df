// A rank's messages on its GPU: what it remembers of its channels, and the launches of an exchange.
#pragma once

#include <cuda_runtime.h>

#include <span>

#include "runtime/cuda/branch.hpp"
#include "runtime/cuda/cleared_memory.hpp"
#include "runtime/cuda/exchange_kernel.hpp"
#include "runtime/peer_message.hpp"

namespace plait {

class Exchanger {
 public:
  // The rank's device is current, here and when it ends; by then it is done with all exchanges. `early`: whether
  // launches on streams, not on branches, may begin early (early_launch.hpp).
  Exchanger(const DeviceRank& self, StrandFailure* failures, const ChannelShape& shape, bool early);
  Exchanger(const Exchanger&) = delete;
  Exchanger& operator=(const Exchanger&) = delete;

  // Bytes of memory of the GPU, besides the block.
  static size_t device_bytes() { return sizeof(MessageState); }

  // The rank's device is current. Throws kSystem where CUDA refuses.
  void enqueue(std::span<const PeerMessage> messages, cudaStream_t stream) const;
  // On a branch beside what the stream gets meanwhile; with other ranks only.
  void enqueue(std::span<const PeerMessage> messages, Branch& branch) const;

 private:
  // enqueue(argument, grid, block) for each part, the first of which copies `own` as well.
  template <class Enqueue>
  void launch_parts(std::span<const PeerMessage> messages, std::span<const OwnMessage> own,
                    const Enqueue& enqueue) const;

  const DeviceRank self_;
  StrandFailure* const failures_;  // as the GPU addresses them
  const ChannelShape shape_;
  const bool early_;
  const ClearedMemory<MessageState> state_;
};

}  // namespace plait
