// A descriptor that tells its holders when this process has ended. Holders may be in another process namespace, where
// the number of this process means nothing. For other designs see docs/dev/connections.md, "Processes that cannot be
// seen".
#pragma once

#include "base/unique_fd.hpp"

namespace plait {

class Life {
 public:
  // Uses a handle of this process, or a pipe on kernels before 5.3, which know no handles.
  Life();
  // Uses a pipe on any kernel. A child that was forked from this process keeps it alive.
  static Life by_pipe();

  // The descriptor for others, who may hold it for longer than this object lives.
  int descriptor() const { return told_.get(); }

 private:
  Life(UniqueFd told, UniqueFd held) : told_(std::move(told)), held_(std::move(held)) {}

  UniqueFd told_;
  UniqueFd held_;  // the end of the pipe that only this process has
};

// Whether the process that gave this descriptor has ended.
bool has_ended(int descriptor);

// Returns a handle of a process that this one can see, for has_ended(). Empty if there is no such process.
UniqueFd process_handle(int pid);

}  // namespace plait
