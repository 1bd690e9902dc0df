// The communicators that perform the chunks of staged calls on GPUs.
#pragma once

#include <functional>
#include <vector>

#include "api/communicator.hpp"

namespace plait {

// The settings of so many lanes of a communicator.
Settings lane_settings(const Communicator& of, int count);

// Makes so many lanes, with the ranks of `of`, without GPUs. Their messages may be between GPUs all the same.
// Collective. Throws as Communicator::create().
std::vector<Communicator> make_lanes(Communicator& of, int count, GpuMessages messages = GpuMessages::kThroughHost);

// Does a step on every rank; if it throws on one, this throws on all, with the rank that it failed on. Collective.
void on_every_rank(Communicator& communicator, const std::function<void()>& step);

}  // namespace plait
