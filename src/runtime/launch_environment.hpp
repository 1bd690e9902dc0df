// What a launcher told this process about the ranks, in the environment variables that each launcher has for it
// (launchers.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/settings.hpp"
#include "runtime/ancestor.hpp"
#include "runtime/unique_id.hpp"

namespace plait {

struct LaunchEnvironment {
  std::string launcher;  // "plait run", "torchrun", "Open MPI", …, for messages
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  // A text that the ranks of this job have in common and that no other job on this host has at the same time. Empty
  // only where size is 1.
  std::string job_key;

  // The id of the job's communicator number `sequence`; see UniqueId::for_job.
  UniqueId id(uint64_t sequence) const { return UniqueId::for_job(job_key, sequence); }
};

// Nothing where no launcher started this process. Where several have left their variables, the innermost counts, and
// one that says "alone" is not it: the rules stand in launch_environment.cpp. PLAIT_JOB, where it is set, is the job's
// key under every launcher. Throws kInvalidInput
//   - where what a launcher says is incomplete, or launchers contradict each other: the message names all variables;
//   - where the ranks are spread over several hosts;
//   - where nothing tells this job from others.
std::optional<LaunchEnvironment> detect_launch_environment(const Environment& environment = process_environment(),
                                                           const AncestorFinder& ancestor = find_ancestor);

}  // namespace plait
