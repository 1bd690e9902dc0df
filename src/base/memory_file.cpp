#include "base/memory_file.hpp"

#include <sys/mman.h>

namespace plait {

UniqueFd make_memory_file(const char* label, size_t bytes) {
  UniqueFd file(static_cast<int>(::memfd_create(label, MFD_CLOEXEC)));
  // Empty it first: until it got another number, it may have been a standard stream into which a thread wrote.
  if (!file || ::ftruncate(file.get(), 0) != 0 || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) return {};
  return file;
}

}  // namespace plait
