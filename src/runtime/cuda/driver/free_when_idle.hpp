// Frees memory at a safe moment: CUDA waits until the GPU is idle before it frees, and blocks all launches of the
// process meanwhile.
#pragma once

#include <functional>

namespace plait {

// Calls `free` now if no call of this process is under way. A call under way could wait for another rank, and that rank
// for this thread; then a separate thread, with `device` current, calls `free` as soon as no call is under way. If
// several things wait for that already, `free` is called now all the same, so that memory does not run out. `free`
// throws nothing, and may never be called if the process ends first. Throws nothing.
void free_when_idle(int device, std::function<void()> free);

}  // namespace plait
