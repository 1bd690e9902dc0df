// Watches the processes of peers by their handles.
#include "runtime/host/peers.hpp"

#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/small_file.hpp"

namespace plait {
namespace {

// Returns the state letter in /proc/<pid>/stat, which follows the command name in parentheses, or 0 if there is no such
// process.
char state_letter(int pid) {
  const std::string line = read_small_file(join("/proc/", pid, "/stat"));
  const size_t close = line.rfind(')');
  return close == std::string::npos || close + 2 >= line.size() ? 0 : line[close + 2];
}

}  // namespace

Peers::Peers(std::vector<int> pids) : pids_(std::move(pids)) {
  Handles handles;
  for (const int pid : pids_) handles.push_back(pid > 0 && pid != getpid() ? process_handle(pid) : UniqueFd());
  handles_ = std::make_shared<const Handles>(std::move(handles));
}

Peers Peers::meet(Bootstrap& on_host, const std::vector<int>& ranks, std::vector<int> pids, std::vector<int> own_pids) {
  Peers peers({});
  peers.pids_ = std::move(pids);
  peers.own_pids_ = std::move(own_pids);
  peers.life_ = std::make_shared<const Life>();
  Handles handles(peers.pids_.size());
  std::vector<UniqueFd> gathered = on_host.all_gather_descriptors(peers.life_->descriptor());
  for (size_t i = 0; i < ranks.size(); ++i) handles[static_cast<size_t>(ranks[i])] = std::move(gathered[i]);
  peers.handles_ = std::make_shared<const Handles>(std::move(handles));
  return peers;
}

void Peers::set_hosts(std::vector<std::string> hosts, std::vector<int> own_pids) {
  hosts_ = std::move(hosts);
  own_pids_ = std::move(own_pids);
}

bool Peers::alive(int rank) const {
  if (const UniqueFd& handle = (*handles_)[rank]) return !has_ended(handle.get());
  if (pids_[rank] <= 0 || pids_[rank] == getpid()) return true;
  const char letter = state_letter(pids_[rank]);
  if (letter != 0) return letter != 'Z' && letter != 'X';
  return kill(pids_[rank], 0) == 0 || errno == EPERM;
}

std::string Peers::state(int rank) const {
  if (!alive(rank)) return "gone";
  if (is_elsewhere(rank)) return "in a state that this host does not see";
  if (pids_[rank] <= 0) return (*handles_)[rank] ? "alive" : "in an unknown state";
  switch (state_letter(pids_[rank])) {
    case 'R':
      return "running";
    case 'S':
      return "sleeping";
    case 'D':
      return "waiting for input or output";
    case 'T':
      return "stopped by a signal";
    case 't':
      return "stopped by a debugger";
    default:
      return "alive";
  }
}

std::string Peers::process(int rank) const {
  if (is_elsewhere(rank)) return join(own_pids_[rank], " on ", hosts_[rank]);
  if (pids_[rank] > 0) return std::to_string(pids_[rank]);
  return own_pids_.empty() ? "in another container" : join(own_pids_[rank], " in another container");
}

}  // namespace plait
