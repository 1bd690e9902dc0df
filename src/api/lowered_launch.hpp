// The GPU runtime's launch of a call, lowered for all ranks. It says how many channels have which slice in which round.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "api/launch_program.hpp"
#include "runtime/bound_plan.hpp"
#include "runtime/call.hpp"
#include "runtime/cuda/lowering/queue_program.hpp"

namespace plait {

struct LoweredLaunch {
  std::vector<QueueProgram> ranks;
  LaunchShape shape;
  bool through_host = false;

  int channels() const;
  uint64_t rounds() const;
  // The number of the simulator's queues that stand for the channels, and begin one after the other. Channels that are
  // all at one step leave links idle together; on GPUs they soon drift apart, as these do.
  int groups() const;
  // How many channels of a group have a slice in a round.
  int width(uint64_t round, int group) const;
  bool is_last(uint64_t round) const { return round + 1 == rounds(); }
  const SliceProgram& part(int rank, int queue, uint64_t round) const;
  // The bytes that an operation moves in a group's channels, with its flags if it crosses links. The last slice of all
  // may be shorter.
  double bytes_of(int rank, int queue, uint64_t round, int group, int operation, bool on_links) const;
};

// Lowers a part of each block of the call; `through_host`: for the memory of hosts. Throws what bind() and
// make_queue_program() do.
LoweredLaunch lower(const SimulatedLaunch& launch, const Call& call, const BlockPart& part, bool through_host);

}  // namespace plait
