// Groups: one thread notes calls between plaitGroupStart and plaitGroupEnd, and makes them at the end.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "api/c/handle.hpp"
#include "api/c/result.hpp"
#include "runtime/buffer_blocks.hpp"
#include "runtime/call.hpp"
#include "runtime/peer_message.hpp"
#include "runtime/premul_scalar.hpp"

namespace plait::c {

// A collective as it was called.
struct CollectiveCall {
  const char* function;
  plaitComm_t comm;
  Call call;
  const void* input;
  void* output;
  plaitStream_t stream;
  std::optional<Scalar> scalar = std::nullopt;           // of this rank, in a pre-multiplied sum
  std::shared_ptr<const VerifiedPlan> plan = nullptr;    // of the user's own; none: it is chosen
  std::shared_ptr<const BufferBlocks> blocks = nullptr;  // of this rank, in a call by counts
};

// A send or a receive as it was called.
struct MessageCall {
  const char* function;
  plaitComm_t comm;
  PeerMessage message;
  plaitStream_t stream;
};

// A communicator to be made, which waits for other ranks.
struct CommunicatorToMake {
  const char* function;
  std::function<plaitComm_t()> make;
  plaitComm_t* where;
  plaitComm_t divided;  // the communicator that it is a part of; none where it is not made by dividing one
};

class CallGroup {
 public:
  static CallGroup& of_this_thread();

  void start();
  // Throws the first failure as a Refusal.
  void end();

  // Within a group these note the call, else they make it at once.
  void issue(const CollectiveCall& call);
  void issue(const MessageCall& call);
  void make(CommunicatorToMake communicator);

  // The whole of a C function whose call may be noted. If it fails within a group, no call of the group is made.
  template <class Body>
  static plaitResult_t at_edge(const char* function, const Body& body) noexcept {
    const plaitResult_t result = c::at_edge(function, body);
    if (result != plaitSuccess) of_this_thread().keep_failure(result);
    return result;
  }

 private:
  // The calls that were noted.
  struct Notes {
    std::vector<CommunicatorToMake> communicators;
    std::vector<CollectiveCall> calls;
    std::vector<MessageCall> messages;
    Answer failure;  // the first
  };

  void keep_failure(plaitResult_t result) noexcept;

  // Nothing that ends with the thread: static destructors of a program still make calls.
  int depth_ = 0;
  Notes* notes_ = nullptr;  // of the group that is open, owned
};

}  // namespace plait::c
