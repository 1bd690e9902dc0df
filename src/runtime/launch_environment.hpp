// What a launcher told this process about the ranks, in the environment variables that each launcher has for it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/settings.hpp"
#include "runtime/unique_id.hpp"

namespace plait {

struct LaunchEnvironment {
  std::string launcher;  // "plait run", "torchrun", "Open MPI", "MPICH" or "Slurm", for messages
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  // A text that the ranks of this job have in common and that no other job on this host has at the same time. Empty
  // only where size is 1.
  std::string job_key;

  // The id of the job's communicator number `sequence`; see UniqueId::for_job.
  UniqueId id(uint64_t sequence) const { return UniqueId::for_job(job_key, sequence); }
};

// Names the nearest ancestor process whose command begins with `prefix`, by process id and start time; empty where
// there is none. That tells jobs apart where a launcher gives them no name.
using AncestorFinder = std::function<std::string(const std::string& prefix)>;
std::string find_ancestor(const std::string& prefix);

// Looks for `plait run`, torchrun, Open MPI, MPICH (Hydra) and Slurm, in this order; nothing where none of them started
// this process. PLAIT_JOB, where it is set, is the job's key under every launcher. Throws kInvalidInput where what a
// launcher says is incomplete or contradicts itself, where the ranks are spread over several hosts, and where nothing
// tells this job from others.
std::optional<LaunchEnvironment> detect_launch_environment(const Environment& environment = process_environment(),
                                                           const AncestorFinder& ancestor = find_ancestor);

}  // namespace plait
