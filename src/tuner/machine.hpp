// The machine of a communicator as its choices see it. It is the same on all ranks.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "base/settings.hpp"
#include "model/placement.hpp"
#include "model/profile.hpp"
#include "topology/topology.hpp"

namespace plait {

// Facts about the GPUs that run kernels, as far as choices may depend on them: the least and the most of any rank's.
struct GpuFacts {
  int processors = 132;      // SMs
  int ranks_per_device = 1;  // that share one GPU
  bool lines = true;         // what a warp stores at once arrives whole: LL128 is right between them
  bool host_path = false;    // all ranks share pinned host memory besides
  bool maps_buffers = true;  // of other ranks; else nothing goes straight from buffer to buffer
  bool blocks_stay = true;   // of a rank that is done with all calls and ends, while others still read from it
  int most_sms = 0;          // that a call may keep busy; 0: as many as make it fast

  // How GPUs reach each other's memory, ranks of one process or of several: where they do not, they do not reach
  // buffers either.
  void set_peer_memory(PeerMemoryKind peer_memory, bool in_one_process);
};

struct RankMachine {
  Topology topology;
  Placement placement;
  std::shared_ptr<const Profile> given_profile;  // by the settings; null: none
  const Profile* profile = nullptr;              // that one, or the library's that fits
  std::optional<GpuFacts> gpus;                  // of ranks on GPUs
  AlgorithmArguments base;                       // nodes, groups and engine, of any collective

  int ranks() const { return static_cast<int>(placement.device_of_rank.size()); }
  // The arguments of algorithms on it.
  AlgorithmArguments arguments(Collective collective, int root) const {
    AlgorithmArguments arguments = base;
    arguments.collective = collective;
    arguments.root = has_root(collective) ? root : 0;
    return arguments;
  }
};

// Places ranks on a topology, with facts about its GPUs by their models: for described machines, and for `plait plan`.
// Throws kInvalidArgument if they do not fit, and says what would.
RankMachine place_on(const Topology& topology, int ranks, const Settings& settings);
// The same for ranks on these devices.
RankMachine place_on(const Topology& topology, const std::vector<int>& device_of_rank, const Settings& settings);

// Reads PLAIT_TOPOLOGY: the name of a described machine or a file, with ":nodes=2" behind it for so many of them.
// Throws kInvalidArgument or kInvalidInput.
Topology described_topology(std::string_view text);

// Whether ranks should share pinned host memory for the host path: if it was measured to help, or the user's launch
// insists.
struct LaunchShape;
bool wants_host_path(const RankMachine& machine, const std::optional<LaunchShape>& launch);

}  // namespace plait
