#include "base/process.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "base/small_file.hpp"

namespace plait {

namespace {

uint64_t number_of(const char* name_space) {
  struct stat status{};
  return ::stat(name_space, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

uint64_t own_process_namespace() { return number_of("/proc/self/ns/pid"); }

uint64_t own_network_namespace() { return number_of("/proc/thread-self/ns/net"); }

std::string own_boot_id() {
  const std::string text = read_small_file("/proc/sys/kernel/random/boot_id");
  return text.substr(0, text.find('\n'));
}

std::string own_host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

}  // namespace plait
