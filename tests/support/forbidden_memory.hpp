// Memory that nobody may touch. The address sanitizer enforces it in programs that are compiled with it. Of eight
// aligned bytes it can forbid the last ones, but not the first ones: in front of a buffer, memory is forbidden up to
// the last multiple of eight.
#pragma once

#include <cstddef>

#if defined(__has_feature)  // clang
#if __has_feature(address_sanitizer)
#define PLAIT_FORBIDS_MEMORY
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define PLAIT_FORBIDS_MEMORY
#endif

#ifdef PLAIT_FORBIDS_MEMORY
#include <sanitizer/asan_interface.h>
#endif

namespace plait::test {

inline void forbid_memory([[maybe_unused]] const std::byte* first, [[maybe_unused]] size_t bytes) {
#ifdef PLAIT_FORBIDS_MEMORY
  __asan_poison_memory_region(first, bytes);
#endif
}
inline void allow_memory([[maybe_unused]] const std::byte* first, [[maybe_unused]] size_t bytes) {
#ifdef PLAIT_FORBIDS_MEMORY
  __asan_unpoison_memory_region(first, bytes);
#endif
}

}  // namespace plait::test
