// A descriptor that tells whoever holds it when this process has ended, however far away they are: in another process
// namespace, where its number means nothing. Other designs: docs/bootstrap.md, "Processes that cannot be seen".
#pragma once

#include "base/unique_fd.hpp"

namespace plait {

class Life {
 public:
  // Of this process, by a handle of it; by a pipe, on kernels before 5.3, which know no handles.
  Life();
  // By a pipe, on any kernel. A child that was forked from this process keeps it alive.
  static Life by_pipe();

  // For others, who may hold it for longer than this.
  int descriptor() const { return told_.get(); }

 private:
  Life(UniqueFd told, UniqueFd held) : told_(std::move(told)), held_(std::move(held)) {}

  UniqueFd told_;
  UniqueFd held_;  // the end of the pipe that only this process has
};

// Of another process that gave its descriptor.
bool has_ended(int descriptor);

// The handle of a process that this one can see, which tells the same; empty where there is none.
UniqueFd process_handle(int pid);

}  // namespace plait
