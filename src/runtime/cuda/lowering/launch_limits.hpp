// How launches cut messages: the memory of a channel, as limits for bind(), and the part that links carry.
#pragma once

#include <cstddef>

#include "runtime/bound_plan.hpp"
#include "runtime/call.hpp"
#include "tuner/launch_shape.hpp"

namespace plait {

BindLimits launch_limits(const LaunchShape& shape, const Plan& plan);
// The launch shape of a HostPath. It has as many threads per CTA, so that wherever one of the CTAs fits, the others do.
LaunchShape host_path_shape(const LaunchShape& shape);
// The same limits for the launch of the host path.
BindLimits host_path_limits(const LaunchShape& shape, const Plan& plan);
// The elements of each block that do not take the host path: the first ones, up to where pieces of the rest are
// aligned.
size_t elements_over_links(const Call& call, const LaunchShape& shape);

}  // namespace plait
