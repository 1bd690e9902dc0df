// The ranks of a new communicator tell each other this before they share memory.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "base/settings.hpp"
#include "runtime/collective_step.hpp"

namespace plait {

// Plain bytes of a fixed size.
struct Handshake {
  uint64_t scratch_bytes = 0;
  uint64_t staging_bytes = 0;
  int32_t staging_lanes = 0;
  bool staged_plans = false;
  bool adapt = false;
  char network_gbits[24] = {};
  cpu_set_t cores = {};
  uint64_t machine = 0;       // that has these cores, whichever host the rank is taken to be on
  char algorithm[1024] = {};  // one for each collective, with all that it takes
  char launch[64] = {};
  char topology[256] = {};
  uint64_t profile = 0;  // hash of the text of the one that is given; 0: none
  int32_t max_sms = 0;
  int32_t persistent_ctas = 0;
  int32_t cpu_driven = 0;
  int32_t gpu_messages = 0;
  int32_t cpu_reduce_bytes = 0;
  int32_t cpu_driven_bytes = 0;
  bool has_device = false;
  uint64_t process_namespace = 0;  // in which
  int32_t process_id = 0;          // is the rank's
  StepResult memory;               // of the first rank of each host, which makes it
};

// This rank's, without `memory`. Throws kInvalidArgument for settings that do not fit into it.
Handshake introduce(const Settings& settings, bool has_device);

// Throws kMismatch where settings differ that must be equal for all ranks to derive the same plans and the same layout.
void check_equal_settings(const std::vector<Handshake>& all);

// How many lanes each rank has for calls that CPUs perform for GPUs; at least one. All ranks get the same.
int staging_lanes_of(const std::vector<Handshake>& all);

// Whether ranks of the machine of `own` have to share cores, be they on one host or taken to be on several.
bool is_machine_crowded(const Handshake& own, const std::vector<Handshake>& all);

// The processes of all ranks by the numbers that `own` knows them by; 0 where it cannot see them, as between
// containers. `as_rank_zero` are the numbers by which rank 0 knows them.
std::vector<int> process_ids(const Handshake& own, const std::vector<Handshake>& all,
                             const std::vector<pid_t>& as_rank_zero);

}  // namespace plait
