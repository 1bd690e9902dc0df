// Finds the companion of an NCCL handle. Looking up takes no lock; adding and removing do, and are rare.
#pragma once

#include <array>
#include <atomic>
#include <mutex>

#include "api/nccl/companion.hpp"

namespace plait::nccl {

class SideTable {
 public:
  static SideTable& of_this_process() {
    static SideTable* const table = new SideTable;
    return *table;
  }

  // Null for handles that nobody added. A companion is never freed: a watchdog may ask about a handle that another
  // thread ends. Any pointer may be asked about.
  Companion* find(ncclComm_t handle) const {
    if (handle == nullptr) return nullptr;
    for (size_t at = place_of(handle);; at = (at + 1) % kPlaces) {
      Companion* found = places_[at].load(std::memory_order_acquire);
      if (found == nullptr) return nullptr;
      if (found != removed() && found->handle() == handle) return found;
    }
  }

  // False where there is no room; calls of that communicator then go to NCCL.
  bool add(Companion* companion);
  void remove(const Companion* companion);

 private:
  static constexpr size_t kPlaces = 8192;
  static constexpr size_t kMostCompanions = kPlaces / 2;  // so that searches are short, and end

  static size_t place_of(ncclComm_t handle) {
    return (reinterpret_cast<uintptr_t>(handle) >> 4) * 0x9e3779b97f4a7c15u >> 51;  // 13 bits
  }
  // Marks a place that was in use: searches go on past it.
  static Companion* removed() { return reinterpret_cast<Companion*>(uintptr_t{1}); }

  size_t place_where(const Companion* companion) const;
  void clear(size_t at);

  std::array<std::atomic<Companion*>, kPlaces> places_{};
  std::mutex mutex_;
  size_t count_ = 0;  // of companions and marks
};

}  // namespace plait::nccl
