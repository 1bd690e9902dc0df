#include "base/unique_fd.hpp"

#include <fcntl.h>

#include <cerrno>

namespace plait {

int beyond_standard_streams(int descriptor) {
  if (descriptor < 0 || descriptor > STDERR_FILENO) return descriptor;
  const int moved = ::fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno == EINVAL ? EMFILE : errno;  // "invalid": the limit of open files is 3 or less
  ::close(descriptor);
  errno = error;
  return moved;
}

}  // namespace plait
