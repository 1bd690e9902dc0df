// Process handles of peers.
#include "runtime/host/peers.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/small_file.hpp"

namespace plait {
namespace {

// The letter of /proc/<pid>/stat behind the command name in parentheses; 0 where there is no such process.
char state_letter(int pid) {
  const std::string line = read_small_file(join("/proc/", pid, "/stat"));
  const size_t close = line.rfind(')');
  return close == std::string::npos || close + 2 >= line.size() ? 0 : line[close + 2];
}

}  // namespace

Peers::Peers(std::vector<int> pids) : pids_(std::move(pids)) {
  for (const int pid : pids_) {
    UniqueFd handle;
#ifdef SYS_pidfd_open
    if (pid > 0 && pid != getpid()) handle = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
#endif
    handles_.push_back(std::move(handle));
  }
}

bool Peers::alive(int rank) const {
  if (pids_[rank] <= 0 || pids_[rank] == getpid()) return true;
  if (handles_[rank]) {  // readable once the process has ended, also while nobody has reaped it
    pollfd event{handles_[rank].get(), POLLIN, 0};
    return poll(&event, 1, 0) != 1;
  }
  const char letter = state_letter(pids_[rank]);
  if (letter != 0) return letter != 'Z' && letter != 'X';
  return kill(pids_[rank], 0) == 0 || errno == EPERM;
}

std::string Peers::state(int rank) const {
  if (!alive(rank)) return "gone";
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

}  // namespace plait
