// Launches on GPUs as the simulator performs them: what the GPU runtime would launch, slice by slice.
//
// Plans are bound and lowered by the code that lowers them for kernels (runtime/cuda/lowering), for every rank. So the
// simulator takes from there how a message is cut, which copies are performed at once, which signals go in one run,
// which queues wait for which before they reuse memory, and what goes through host memory. All channels of a queue do
// the same at the same time: they are one queue here, which has all of their bytes.
#pragma once

#include <cstddef>

#include "model/routes.hpp"
#include "model/simulator/program.hpp"
#include "plan/verifier.hpp"
#include "tuner/launch_shape.hpp"

namespace plait {

// The launch of a message of `bytes` bytes of float32. Plans must outlive it.
struct SimulatedLaunch {
  const VerifiedPlan* plan = nullptr;
  const VerifiedPlan* ending = nullptr;     // for the last slice of each channel; null: none
  const VerifiedPlan* zero_copy = nullptr;  // which goes in place of `plan`; null: none
  LaunchShape shape;
  size_t bytes = 0;
  bool pdl = true;  // if it can be
  int calls = 1;    // of the same kind, one behind the other in a stream
};

// Throws what bind() and make_queue_program() do, and kInvalidArgument where no path leads where it has to.
SimulatorProgram compile_launch(const SimulatedLaunch& launch, Routes& routes);

}  // namespace plait
