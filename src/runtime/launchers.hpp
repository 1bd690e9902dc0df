// The launchers that may have started a rank, and the environment variables in which each tells it who it is: a table.
// What follows from it for one process is in launch_environment.hpp.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

namespace plait {

// Names of variables, up to the first null.
using VariableNames = std::array<const char*, 4>;

// Launchers start each other, and what the outer one says stays in the environment. In this order an inner one comes
// before those that commonly start it.
enum class LauncherLayer {
  kPlait,            // takes what others say out of the environment of its ranks
  kAgent,            // one a host, which mpirun or srun may have started: torchrun
  kProcessManager,   // mpirun and the like, often in an allocation or step of a resource manager
  kResourceManager,  // what it says may be about a shell, or about the daemons of mpirun
  kUnknown,          // variables that anybody may set, for any reason: a program for its children, a cluster for a pod
};

struct Launcher {
  const char* name;  // for messages
  LauncherLayer layer;
  const char* rank;
  VariableNames size{};        // the first that is set counts; none: it does not say
  VariableNames local_rank{};  // the same
  VariableNames local_size{};  // ranks of this host
  const char* hosts = nullptr;
  VariableNames proof{};   // where none of them is set, it was not this launcher; none: the names above are its own
  VariableNames unique{};  // each of them tells its jobs on this host apart, as far as it is set
  VariableNames beside{};  // what may differ besides
  const char* ancestor = nullptr;  // or a process of such a name does, below which all ranks of this host are
};

// Inner ones first.
std::span<const Launcher> launchers();

// All variables that say which rank a process is, or of how many.
std::vector<std::string> launcher_variables();
// These, and all others that are looked at: what tests hide of whoever started them.
std::vector<std::string> all_launcher_variables();

}  // namespace plait
