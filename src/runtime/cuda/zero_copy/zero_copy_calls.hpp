// Calls whose data goes straight from the buffers of some ranks into those of others. All ranks agree on each such
// call, on the host and before anyone enqueues anything: no rank can know alone where the buffers of the others lie.
//
// A rank waits there for the others, but no longer than may be worth it; where one comes later, all of them perform the
// call as if this were not there. So they do where some ranks share a process and others do not.
//
// A call takes three steps, so that one thread can drive several ranks: all of them take each step before any takes the
// next one, and then none waits for another that its own thread has not come to.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/communicator_state.hpp"
#include "runtime/cuda/memory/peer_buffers.hpp"
#include "runtime/cuda/zero_copy/agreement_watch.hpp"
#include "runtime/cuda/zero_copy/copy_engine_lock.hpp"
#include "runtime/cuda/zero_copy/copy_program.hpp"
#include "runtime/meetings.hpp"

namespace plait {

// What all ranks have agreed on for one call.
struct ZeroCopyCall {
  // By rank, where the buffers lie that this rank reads, as its GPU addresses them; null where it reads none.
  std::vector<const std::byte*> inputs, outputs;
  PeerBuffers::Use use;  // of these
  // The number of this agreement, the same on all ranks. Ranks that replay graphs of different calls find out by it.
  uint64_t agreement = 0;
};

class ZeroCopyCalls {
 public:
  ZeroCopyCalls(CommunicatorState& state, int ranks, PeerBuffers& buffers, CopyEngineLock& lock,
                const WaitLimits& limits);

  // Tells the others of this rank's buffers; never waits. False: it is not to be tried, and the call is over here.
  bool propose(const CopyProgram& program, const void* input, const void* output, cudaStream_t stream, bool willing);
  // Waits for what they tell, for at most `timeout`. False, on all ranks: one came too late, and the call is over.
  bool meet(std::chrono::nanoseconds timeout);
  // Nothing, on all ranks, where one cannot or is not willing. Else its copies follow, and where copy engines perform
  // them the turn is this rank's. Throws what ended the communicator.
  std::optional<ZeroCopyCall> conclude();

 private:
  // What others may read of a rank.
  struct Places {
    BufferPlace input, output;
  };

  bool is_willing(const CopyProgram& program, const void* input, const void* output, cudaStream_t stream,
                  Places& places);
  bool find_buffers(const CopyProgram& program, std::span<const Proposal> proposals);

  const int rank_;
  PeerBuffers& buffers_;
  CopyEngineLock& lock_;
  Meetings meetings_;
  const int ranks_;
  AgreementWatch watch_;
  // The call at hand.
  const CopyProgram* program_ = nullptr;
  bool captured_ = false;
  ZeroCopyCall call_;
};

}  // namespace plait
