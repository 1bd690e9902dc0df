// Sends and receives of a rank on its GPU: the state of its FIFOs, and the launches of an exchange.
#pragma once

#include <cuda_runtime.h>

#include <span>

#include "runtime/cuda/driver/cleared_memory.hpp"
#include "runtime/cuda/driver/stream_fork.hpp"
#include "runtime/cuda/p2p/p2p_kernel.hpp"
#include "runtime/peer_message.hpp"

namespace plait {

class CudaP2p {
 public:
  // The rank's device is current, here and in the destructor; by then the GPU is done with all exchanges. `pdl`:
  // whether launches on streams, but not on forks, use PDL (pdl.hpp).
  CudaP2p(const DeviceRank& self, ChannelFailure* failures, const FifoShape& shape, bool pdl);
  CudaP2p(const CudaP2p&) = delete;
  CudaP2p& operator=(const CudaP2p&) = delete;

  // Bytes of GPU memory besides the block.
  static size_t device_bytes() { return sizeof(MessageState); }

  // The rank's device is current. Throws kSystem if CUDA refuses.
  void enqueue(std::span<const PeerMessage> messages, cudaStream_t stream) const;
  // Launches on a fork of the stream; messages with other ranks only.
  void enqueue(std::span<const PeerMessage> messages, StreamFork& fork) const;

 private:
  // Calls enqueue(argument, grid, block) for each part. The first part also copies `own`.
  template <class Enqueue>
  void launch_parts(std::span<const PeerMessage> messages, std::span<const OwnMessage> own,
                    const Enqueue& enqueue) const;

  const DeviceRank self_;
  ChannelFailure* const failures_;  // a device pointer
  const FifoShape shape_;
  const bool pdl_;
  const ClearedMemory<MessageState> state_;
};

}  // namespace plait
