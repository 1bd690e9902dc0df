// Addresses of GPU memory in tests without a GPU: of host memory, so far off that a CPU that uses one crashes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plait::test {

inline constexpr uintptr_t kFar = uintptr_t{1} << 62;

inline bool is_far(const void* address) { return (reinterpret_cast<uintptr_t>(address) & kFar) != 0; }
inline std::byte* to_far(const void* address) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(address) | kFar);
}
// Also of an address that is near.
inline std::byte* from_far(const void* address) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(address) & ~kFar);
}

}  // namespace plait::test
