// Calls whose data goes straight from the buffers of some ranks into those of others. All ranks agree on each such
// call, on the host and before anyone enqueues anything: no rank can know alone where the buffers of the others lie.
//
// A rank waits there for the others, but no longer than may be worth it; where one comes later, all of them perform the
// call as if this were not there. So they do where ranks share a process: one thread may drive them all, and would wait
// for itself.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "runtime/communicator_state.hpp"
#include "runtime/cuda/copy_engines.hpp"
#include "runtime/cuda/copy_program.hpp"
#include "runtime/cuda/peer_buffers.hpp"
#include "runtime/host/offers.hpp"

namespace plait {

class DirectCalls {
 public:
  // By rank, where the inputs lie that this rank copies from, as its GPU addresses them.
  using Inputs = std::vector<const std::byte*>;

  // A rank that has offered and then does not answer for so long has failed.
  DirectCalls(CommunicatorState& state, int ranks, PeerBuffers& buffers, CopyEngines& engines, double timeout_seconds);

  // Tells the others of this rank's buffers and waits for what they tell, for at most `patience`. Nothing, on all ranks,
  // where one came too late or cannot. Throws what ended the communicator.
  std::optional<Inputs> agree(const CopyProgram& program, const void* input, const void* output, bool captured,
                              std::chrono::nanoseconds patience);

 private:
  // What a rank tells the others.
  struct Words {
    BufferPlace input;
    uint32_t call = 0;            // its signature
    uint32_t captured_calls = 0;  // before this one
    bool captured = false;
    bool willing = false;
  };

  bool can_offer(const CopyProgram& program, const void* input, const void* output, BufferPlace& place);
  bool all_agree(const CopyProgram& program, const Words& ours, const void* input, Inputs& inputs);
  std::vector<Words> words_of_all() const;
  bool map_all(const CopyProgram& program, const std::vector<Words>& all, Inputs& inputs);

  CommunicatorState& state_;
  PeerBuffers& buffers_;
  CopyEngines& engines_;
  Offers offers_;
  const int ranks_;
  const double timeout_seconds_;
  uint32_t captured_calls_ = 0;
  // Not where ranks share a process; and no more once a rank has captured a call that another one made at once, for from
  // then on what ranks offer at the same time need not be for the same call.
  bool is_possible_;
};

}  // namespace plait
