// Zero-copy calls. All ranks agree on each such call on the host, before any of them enqueues anything, because no rank
// knows where the buffers of the others lie.
//
// A rank waits for the others only as long as that may be worth it. If one comes later, all ranks perform the call in
// the usual way. They also do that if some ranks share a process and others do not.
//
// A call takes three steps (runtime/agreement.hpp), so that one thread can drive several ranks. All of them take each
// step before any takes the next one. So none waits for a rank whose step the thread has yet to take.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/agreement.hpp"
#include "runtime/communicator_state.hpp"
#include "runtime/cuda/memory/peer_buffers.hpp"
#include "runtime/cuda/zero_copy/copy_engine_lock.hpp"
#include "runtime/cuda/zero_copy/copy_program.hpp"
#include "runtime/cuda/zero_copy/zero_copy_conditions.hpp"

namespace plait {

// The agreement of all ranks on one call.
struct ZeroCopyCall {
  // By rank, the buffers that this rank reads, as its GPU addresses them; null: it reads none.
  std::vector<const std::byte*> inputs, outputs;
  PeerBuffers::Use use;  // of these
  // The number of this agreement, the same on all ranks. It lets ranks notice that they replay graphs of different
  // calls.
  uint64_t agreement = 0;
};

class ZeroCopyCalls {
 public:
  ZeroCopyCalls(CommunicatorState& state, int ranks, PeerBuffers& buffers, CopyEngineLock& lock,
                const WaitLimits& limits);

  // Tells the others where this rank's buffers are; never waits. False: an agreement is not tried, and the call is not
  // zero-copy.
  bool propose(const CopyProgram& program, const void* input, const void* output, cudaStream_t stream, bool willing);
  // Waits for the proposals of the others, for at most `timeout`, and votes. False on all ranks: one came too late, and
  // the call is not zero-copy.
  bool vote(std::chrono::nanoseconds timeout);
  bool has_voted() const { return agreement_.stage() == Agreement::Stage::kVoted; }
  // None, on all ranks, if one cannot or is not willing. Otherwise the copies have to be enqueued next; if copy engines
  // perform them, this rank holds the copy-engine lock. Throws the error that ended the communicator.
  std::optional<ZeroCopyCall> commit();

 private:
  // The buffers of a rank that others may read.
  struct Places {
    BufferPlace input, output;
  };

  bool is_willing(const CopyProgram& program, const void* input, const void* output, cudaStream_t stream,
                  Places& places);
  bool find_buffers(const CopyProgram& program, std::span<const Proposal> proposals);

  const int rank_;
  PeerBuffers& buffers_;
  CopyEngineLock& lock_;
  Agreement agreement_;
  const int ranks_;
  ZeroCopyConditions conditions_;
  // The current call.
  const CopyProgram* program_ = nullptr;
  bool captured_ = false;
  ZeroCopyCall call_;
};

}  // namespace plait
