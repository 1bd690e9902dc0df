// Calls whose data goes straight from the buffers of some ranks into those of others. All ranks agree on each such
// call, on the host and before anyone enqueues anything: no rank can know alone where the buffers of the others lie.
//
// A rank waits there for the others, but no longer than may be worth it; where one comes later, all of them perform the
// call as if this were not there. So they do where ranks share a process: one thread may drive them all, and would wait
// for itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "runtime/communicator_state.hpp"
#include "runtime/cuda/copy_program.hpp"
#include "runtime/cuda/copy_turn.hpp"
#include "runtime/cuda/peer_buffers.hpp"
#include "runtime/meetings.hpp"

namespace plait {

// What all ranks have agreed on for one call.
struct DirectCall {
  // By rank, where the inputs lie that this rank copies from, as its GPU addresses them.
  std::vector<const std::byte*> inputs;
  // Of this agreement, the same on all ranks. Ranks that replay graphs of different calls find out by it.
  uint64_t number = 0;
};

class DirectCalls {
 public:
  struct Options {
    double timeout_seconds = 60;  // a rank that has offered and then does not answer for so long has failed
    Logger log;                   // at level info, once for each reason why a call was not direct
  };
  DirectCalls(CommunicatorState& state, int ranks, PeerBuffers& buffers, CopyTurn& turn, const Options& options);

  // Tells the others of this rank's buffers and waits for what they tell, for at most `patience`. Nothing, on all
  // ranks, where one came too late or cannot. Else its copies follow, and where copy engines perform them the turn is
  // this rank's. Throws what ended the communicator.
  std::optional<DirectCall> agree(const CopyProgram& program, const void* input, const void* output, bool captured,
                                  std::chrono::nanoseconds patience);

 private:
  bool is_willing(const CopyProgram& program, const void* input, const void* output, BufferPlace& place);
  bool find_inputs(const CopyProgram& program, std::span<const Proposal> proposals, DirectCall& call);
  void note(const std::string& why);

  CommunicatorState& state_;
  PeerBuffers& buffers_;
  CopyTurn& turn_;
  const bool is_possible_;  // not where ranks share a process
  Meetings meetings_;
  const int ranks_;
  const Options options_;
  std::set<std::string> noted_;
};

}  // namespace plait
