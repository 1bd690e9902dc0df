// Wakes a thread that sleeps in poll(), where it watches descriptors as well.
#pragma once

#include "base/unique_fd.hpp"

namespace plait {

class WakeEvent {
 public:
  WakeEvent();  // throws kResources if too many files are open

  // Readable once it was set, until it is cleared.
  int descriptor() const { return descriptor_.get(); }
  void set() const;  // any thread
  void clear() const;

 private:
  const UniqueFd descriptor_;
};

}  // namespace plait
