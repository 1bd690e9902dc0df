// Finds out which rank a launcher meant this process to be, from the environment variables that each launcher sets
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
  int local_rank = 0;  // among those of this host; `rank` where the launcher tells nothing of hosts
  // A text that the ranks of this job have in common and that no other job on this host has at the same time. It is
  // empty only if size is 1.
  std::string job_key;

  // The host of rank 0, where ranks are on several hosts or somebody says so (PLAIT_MASTER_ADDR); else empty.
  std::string master;
  uint16_t master_port = 0;  // 0: one that follows from the job

  // The id of the job's communicator number `sequence`; see UniqueId::for_job. Throws kSystem if `master` has no
  // address.
  UniqueId id(uint64_t sequence) const;
};

// Returns nothing if no launcher started this process. If several launchers have left their variables, the innermost
// one counts, unless it says "alone"; launch_environment.cpp has the rules. PLAIT_JOB, if it is set, is the job's key
// under every launcher. Throws kInvalidInput
//   - if what a launcher says is incomplete, or launchers contradict each other: the message names all variables;
//   - if the ranks are spread over several hosts, and nothing says which is rank 0's, or there is no PLAIT_JOB;
//   - if nothing tells this job from others.
std::optional<LaunchEnvironment> detect_launch_environment(const Environment& environment = process_environment(),
                                                           const AncestorFinder& ancestor = find_ancestor);

}  // namespace plait
