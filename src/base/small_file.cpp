#include "base/small_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/unique_fd.hpp"

namespace plait {

std::string read_small_file(const std::string& path, size_t most_bytes) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char block[4096];
  while (file && text.size() < most_bytes) {
    const ssize_t count = ::read(file.get(), block, std::min(sizeof block, most_bytes - text.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(block, static_cast<size_t>(count));
  }
  return text;
}

}  // namespace plait
