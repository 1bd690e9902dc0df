// Questions of the tests to the system: descriptors, mappings, files, namespaces and limits.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "support/outcome.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLAIT_TEST_SANITIZED 1
#else
#define PLAIT_TEST_SANITIZED 0
#endif

namespace plait::test {

inline size_t open_descriptors() {
  size_t count = 0;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) count += ::fcntl(descriptor, F_GETFD) >= 0;
  return count;
}

// The number that the next descriptor will have.
inline rlim_t next_descriptor() {
  const int descriptor = ::dup(0);
  require(descriptor >= 0, "dup");
  ::close(descriptor);
  return static_cast<rlim_t>(descriptor);
}

// How many mappings of this process have `part` in their line of /proc/self/maps.
inline size_t mappings(const std::string& part) {
  std::ifstream file("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(file, line);) count += line.find(part) != std::string::npos;
  return count;
}

inline std::vector<std::string> files_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) names.push_back(entry.path().filename());
  return names;
}

// Lists /dev/shm, without what UCX has there for a moment: tests that run beside this one use a network over it.
inline std::vector<std::string> shared_memory_files() {
  std::vector<std::string> names = files_in("/dev/shm");
  std::erase_if(names, [](const std::string& name) { return name.starts_with("ucx_shm_"); });
  return names;
}

// A directory of its own, removed at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = std::filesystem::temp_directory_path() / "plait-test-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) throw std::system_error(errno, std::generic_category(), pattern);
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline void write_text(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

// Gives this process mounts of its own, as root or in a user namespace; false if the system does not allow it.
inline bool enter_mount_namespace() {
  const uid_t user = ::geteuid();
  if (::unshare(CLONE_NEWNS) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    write_text("/proc/self/setgroups", "deny");
    write_text("/proc/self/uid_map", join("0 ", user, " 1"));
  }
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

// Gives this process other namespaces, such as CLONE_NEWNET, and keeps its user; false if the system does not allow it.
// Only children are in a new process namespace, not the process itself.
inline bool enter_namespaces(int flags) {
  if (::unshare(flags) == 0) return true;
  const uid_t user = ::geteuid();
  if (::unshare(CLONE_NEWUSER | flags) != 0) return false;
  write_text("/proc/self/uid_map", join(user, " ", user, " 1"));
  return ::geteuid() == user;
}

// Mounts a file system in memory with room for `kib` KiB.
inline void mount_small(const std::string& directory, size_t kib) {
  const std::string options = join("size=", kib, "k");
  require(::mount("tmpfs", directory.c_str(), "tmpfs", 0, options.c_str()) == 0, "mount: ", std::strerror(errno));
}

inline void set_limit(int resource, rlim_t value) {
  rlimit limit{};
  ::getrlimit(static_cast<decltype(RLIMIT_AS)>(resource), &limit);
  limit.rlim_cur = value;
  require(::setrlimit(static_cast<decltype(RLIMIT_AS)>(resource), &limit) == 0, "setrlimit");
}

// Bytes of address space that this process uses.
inline size_t address_space() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace plait::test
