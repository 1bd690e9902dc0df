// How a rank waits for others until they have met.
#pragma once

#include <functional>
#include <string>

#include "base/deadline.hpp"
#include "base/wait_limits.hpp"

namespace plait {

// The longest wait: for rank 0 to be there, then for all ranks to be there, then in each call for all ranks to make it.
// (Settings::bootstrap_timeout_seconds)
struct BootstrapOptions : WaitLimits {
  InterruptCheck interrupt_check;  // heard in every wait; what it throws ends this end like any error

  // For one wait, which hears interrupts.
  Deadline deadline() const { return Deadline::after(timeout_seconds, interrupt_check); }
  // The same, and says in the log when it becomes long: `whom` is asked then.
  Deadline deadline(std::function<std::string()> whom) const;
};

}  // namespace plait
