// The processes behind the ranks: alive, stopped or gone.
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
  // Process ids by rank. Ranks of this very process (threads) always count as alive, and so do those whose id is 0:
  // they live in a process namespace that this one cannot see.
  explicit Peers(std::vector<int> pids);

  // Where ranks cannot see each other: all of them call it together, and each gives the others a descriptor that tells
  // when it has ended. `own_pids` are the numbers by which the processes know themselves.
  static Peers meet(Bootstrap& bootstrap, std::vector<int> pids, std::vector<int> own_pids);

  bool alive(int rank) const;
  // "running", "stopped", "sleeping", "gone", …: what the kernel says of the rank's process.
  std::string state(int rank) const;
  // 0 where this process cannot see it.
  int pid(int rank) const { return pids_[rank]; }
  // For messages: "77", "12 in another container".
  std::string process(int rank) const;

 private:
  using Handles = std::vector<UniqueFd>;

  std::vector<int> pids_;
  std::vector<int> own_pids_;               // empty: not told
  std::shared_ptr<const Handles> handles_;  // one stays right where a process id is given to somebody else
  std::shared_ptr<const Life> life_;        // of this process, where others watch it
};

}  // namespace plait
