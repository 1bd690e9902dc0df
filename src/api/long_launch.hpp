// Decides which plans are launched as long ones (LaunchShape::is_long), and in what shape. All ranks decide alike,
// since the channels of long plans have memory of their own.
#pragma once

#include "plan/verifier.hpp"
#include "runtime/call.hpp"
#include "tuner/launch_shape.hpp"

namespace plait {

// Whether the program of some rank does not fit the argument of a launch of such a Simple `shape`, or needs more queues
// or signals than ordinary channels have.
bool needs_long_launch(const VerifiedPlan& plan, const Call& call, const LaunchShape& shape);

// The room of a GPU: ranks that share it wait for each other, so all their CTAs are on it at once.
struct GpuRoom {
  int processors = 0;  // that may be kept busy
  int ranks = 1;       // that share the GPU
};
// The shape of a long launch for a plan of so many queues: no host path, and no more CTAs than are resident together.
// If even one channel has too many CTAs, returns the smallest shape, which PreparedLaunch refuses.
LaunchShape long_shape(LaunchShape shape, int queues, const GpuRoom& room);

}  // namespace plait
