// A table of the launchers that may have started a rank, with the environment variables in which each passes its rank
// and size. launch_environment.hpp draws the conclusion for one process.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

namespace plait {

// Names of variables, up to the first null.
using VariableNames = std::array<const char*, 4>;

// Launchers start each other, and the variables of the outer one stay in the environment. In this order an inner
// launcher comes before those that commonly start it.
enum class LauncherLayer {
  kPlait,            // removes the variables of other launchers from the environment of its ranks
  kAgent,            // one per host, which mpirun or srun may have started: torchrun
  kProcessManager,   // mpirun and the like, often in an allocation or step of a resource manager
  kResourceManager,  // its variables may be about a shell, or about the daemons of mpirun
  kUnknown,          // anybody may have set these variables: a program for its children, a cluster for a pod
};

struct Launcher {
  const char* name;  // for messages
  LauncherLayer layer;
  const char* rank;
  VariableNames size{};        // the first that is set counts; empty: the launcher gives no size
  VariableNames local_rank{};  // the first that is set counts
  VariableNames local_size{};  // number of ranks on this host
  const char* hosts = nullptr;
  VariableNames proof{};  // if none of them is set, it was not this launcher; empty: the names above belong to it alone
  VariableNames unique{};          // each of them that is set tells the launcher's jobs on this host apart
  VariableNames beside{};          // further variables that may differ between jobs
  const char* ancestor = nullptr;  // else the ancestor process of this name does, which all ranks of this host share
};

// All launchers, inner ones first.
std::span<const Launcher> launchers();

// All variables that say which rank a process is, or how many ranks there are.
std::vector<std::string> launcher_variables();
// These, and all others that are looked at: what tests hide of whoever started them.
std::vector<std::string> all_launcher_variables();

}  // namespace plait
