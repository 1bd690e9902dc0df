// The processes behind the ranks: whether they are alive, stopped or gone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "runtime/bootstrap.hpp"
#include "runtime/host/life.hpp"

namespace plait {

class Peers {
 public:
  // Process ids by rank. Ranks in this same process (threads) always count as alive. So do those with id 0, which live
  // in a process namespace that this one cannot see.
  explicit Peers(std::vector<int> pids);

  // For ranks that cannot see each other. All of them call it together, and each gives the others a descriptor that
  // tells when it has ended. `own_pids` are the ids by which the processes know themselves.
  static Peers meet(Bootstrap& bootstrap, std::vector<int> pids, std::vector<int> own_pids);

  bool alive(int rank) const;
  // The state of the rank's process as the kernel tells it: "running", "stopped", "sleeping", "gone", …
  std::string state(int rank) const;
  // The process id, or 0 if this process cannot see it.
  int pid(int rank) const { return pids_[rank]; }
  // The process id for messages: "77", "12 in another container".
  std::string process(int rank) const;

 private:
  using Handles = std::vector<UniqueFd>;

  std::vector<int> pids_;
  std::vector<int> own_pids_;               // empty: unknown
  std::shared_ptr<const Handles> handles_;  // a handle stays right even if its process id is reused
  std::shared_ptr<const Life> life_;        // of this process, if others watch it
};

}  // namespace plait
