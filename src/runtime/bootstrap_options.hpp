// How long a rank waits for the others until they have met, and how such a wait is interrupted.
#pragma once

#include <functional>
#include <string>

#include "base/deadline.hpp"
#include "base/wait_limits.hpp"

namespace plait {

// The timeout applies to each wait: for rank 0 to be there, then for all ranks to be there, then in each call for all
// ranks to make it (Settings::bootstrap_timeout_seconds).
struct BootstrapOptions : WaitLimits {
  InterruptCheck interrupt_check;  // heard in every wait; what it throws closes the endpoint like any error
  std::string about_ranks = {};    // what numbers of ranks mean, behind errors, where they are no numbers of users

  // A deadline for one wait that can be interrupted.
  Deadline deadline() const { return Deadline::after(timeout_seconds, interrupt_check); }
  // The same, but a long wait is logged; `whom` then tells for whom it waits.
  Deadline deadline(std::function<std::string()> whom) const;
};

}  // namespace plait
