// Dividing a communicator into new ones.
#pragma once

#include <exception>
#include <optional>

#include "api/communicator.hpp"

namespace plait {

// What one rank wants.
struct SplitRequest {
  std::optional<int> color;  // 0 or more: ranks of one color make a communicator; none: this rank will be in none
  int key = 0;               // their order in it; among equals that of their old ranks
  Settings settings;         // of the new communicator
  // This rank's arguments cannot be used: thrown when the other ranks have heard of it. None: they can.
  std::exception_ptr refusal = nullptr;
};

// Nothing was divided, and the communicator goes on, for a reason that another rank has at first hand: its arguments
// cannot be used (kInvalidArgument), or the system gave it no socket (kResources).
class SplitRefused : public Error {
 public:
  using Error::Error;
};

// This rank's new communicator, on the parent's device; none where it has no color. All ranks of `parent` call it.
// Throws SplitRefused, the request's refusal, and what Communicator::run() and create() do. `interrupt_check` is as for
// create().
std::optional<Communicator> split(Communicator& parent, const SplitRequest& request,
                                  InterruptCheck interrupt_check = {});

}  // namespace plait
