// The processes behind the ranks: alive, stopped or gone.
#pragma once

#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace plait {

class Peers {
 public:
  // Process ids by rank. Ranks of this very process (threads) always count as alive, and so do those whose id is 0:
  // they live in a process namespace that this one cannot see.
  explicit Peers(std::vector<int> pids);

  bool alive(int rank) const;
  // "running", "stopped", "sleeping", "gone", …: what the kernel says of the rank's process.
  std::string state(int rank) const;
  int pid(int rank) const { return pids_[rank]; }

 private:
  std::vector<int> pids_;
  std::vector<UniqueFd> handles_;  // a handle stays right where a process id is given to somebody else
};

}  // namespace plait
