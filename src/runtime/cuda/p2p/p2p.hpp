// A rank's messages on its GPU: what it remembers of its fifos, and the launches of an exchange.
#pragma once

#include <cuda_runtime.h>

#include <span>

#include "runtime/cuda/driver/cleared_memory.hpp"
#include "runtime/cuda/driver/stream_fork.hpp"
#include "runtime/cuda/p2p/p2p_kernel.hpp"
#include "runtime/peer_message.hpp"

namespace plait {

class P2p {
 public:
  // The rank's device is current, here and when it ends; by then it is done with all exchanges. `early`: whether
  // launches on streams, not on forks, may begin early (pdl.hpp).
  P2p(const DeviceRank& self, ChannelFailure* failures, const FifoShape& shape, bool pdl);
  P2p(const P2p&) = delete;
  P2p& operator=(const P2p&) = delete;

  // Bytes of memory of the GPU, besides the block.
  static size_t device_bytes() { return sizeof(MessageState); }

  // The rank's device is current. Throws kSystem where CUDA refuses.
  void enqueue(std::span<const PeerMessage> messages, cudaStream_t stream) const;
  // On a fork beside what the stream gets meanwhile; with other ranks only.
  void enqueue(std::span<const PeerMessage> messages, StreamFork& fork) const;

 private:
  // enqueue(argument, grid, block) for each part, the first of which copies `own` as well.
  template <class Enqueue>
  void launch_parts(std::span<const PeerMessage> messages, std::span<const OwnMessage> own,
                    const Enqueue& enqueue) const;

  const DeviceRank self_;
  ChannelFailure* const failures_;  // as the GPU addresses them
  const FifoShape shape_;
  const bool pdl_;
  const ClearedMemory<MessageState> state_;
};

}  // namespace plait
