#include "runtime/host/life.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"

namespace plait {

Life::Life() : told_(process_handle(::getpid())) {
  if (!told_) *this = by_pipe();
}

Life Life::by_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail_system(errno, "cannot make a pipe");
  UniqueFd reader(ends[0]), writer(ends[1]);
  if (!reader || !writer) fail_system(EMFILE, "cannot make a pipe");
  return Life(std::move(reader), std::move(writer));
}

// A process handle becomes readable when the process ends, even before anybody has reaped it. A pipe without a writer
// is hung up.
bool has_ended(int descriptor) {
  pollfd event{descriptor, POLLIN, 0};
  return ::poll(&event, 1, 0) == 1;
}

UniqueFd process_handle(int pid) {
#ifdef SYS_pidfd_open
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
#else
  return {};
#endif
}

}  // namespace plait
