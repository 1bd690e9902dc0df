// The drop-in's state of a thread.
#pragma once

namespace plait::nccl {

class KeptCalls;

struct ThreadState {
  int inside = 0;              // calls of NCCL that this thread is in: NCCL calls functions of its own by name
  int depth = 0;               // of ncclGroupStart
  KeptCalls* group = nullptr;  // of the outermost ncclGroupStart, once it has something to keep
};

// No constructor and no destructor: calls come as long as the program runs.
inline constinit thread_local ThreadState thread_state{};

}  // namespace plait::nccl
