// Divides a communicator into new ones.
#pragma once

#include <exception>
#include <optional>

#include "api/communicator.hpp"

namespace plait {

// The request of one rank.
struct SplitRequest {
  std::optional<int> color;  // 0 or more: ranks of one color make a communicator; none: this rank will be in none
  int key = 0;               // their order in it; among equals that of their old ranks
  Settings settings;         // of the new communicator
  bool on_host = false;      // it has no GPU, whether the parent has one or not; all ranks say the same
  // Set if this rank's arguments cannot be used. It is thrown when the other ranks have heard of it.
  std::exception_ptr refusal = nullptr;
};

// Thrown if another rank cannot take part: its arguments cannot be used (kInvalidArgument), or the system gave it no
// socket (kResources). Nothing was divided, and the communicator goes on.
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
