// Freeing for which CUDA waits until the GPU is idle, and lets all launches of the process wait.
#pragma once

#include <functional>

namespace plait {

// Does it now where no call of this process is under way: were one, it could wait for another rank, and that one for
// this thread. Else on a thread of its own, with `device` current, as soon as none is; where several things wait for
// that already, now all the same, lest memory runs out. `free` throws nothing, and need not be done at the end of a
// process. Throws nothing.
void free_when_idle(int device, std::function<void()> free);

}  // namespace plait
