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

  // For ranks of one host that cannot see each other. All of them call it together, and each gives the others a
  // descriptor that tells when it has ended. `ranks` are their numbers, in the order of `on_host`. `own_pids` are the
  // ids by which the processes know themselves.
  static Peers meet(Bootstrap& on_host, const std::vector<int>& ranks, std::vector<int> pids,
                    std::vector<int> own_pids);

  // For ranks of several hosts: `hosts` names the host of each that is on another one than this rank, and is empty for
  // the others. Their processes, `own_pids`, cannot be seen from here; Control finds out when they end.
  void set_hosts(std::vector<std::string> hosts, std::vector<int> own_pids);
  bool is_elsewhere(int rank) const { return !hosts_.empty() && !hosts_[static_cast<size_t>(rank)].empty(); }

  // True for ranks of other hosts.
  bool alive(int rank) const;
  // The state of the rank's process as the kernel tells it: "running", "stopped", "sleeping", "gone", …
  std::string state(int rank) const;
  // The process id, or 0 if this process cannot see it.
  int pid(int rank) const { return pids_[rank]; }
  // The process id for messages: "77", "12 in another container", "12 on node2".
  std::string process(int rank) const;

 private:
  using Handles = std::vector<UniqueFd>;

  std::vector<int> pids_;
  std::vector<int> own_pids_;               // empty: unknown
  std::vector<std::string> hosts_;          // empty: all ranks are on this host
  std::shared_ptr<const Handles> handles_;  // a handle stays right even if its process id is reused
  std::shared_ptr<const Life> life_;        // of this process, if others watch it
};

}  // namespace plait
