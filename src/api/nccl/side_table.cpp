// Changing the side table.
#include "api/nccl/side_table.hpp"

namespace plait::nccl {

bool SideTable::add(Companion* companion) {
  const std::lock_guard lock(mutex_);
  // A handle that NCCL freed behind our back may come again.
  if (const Companion* old = find(companion->handle())) {
    for (auto& place : places_) {
      if (place.load(std::memory_order_relaxed) == old) place.store(companion, std::memory_order_release);
    }
    return true;
  }
  size_t at = place_of(companion->handle());
  for (;; at = (at + 1) % kPlaces) {
    Companion* there = places_[at].load(std::memory_order_relaxed);
    if (there == removed()) break;
    if (there != nullptr) continue;
    if (count_ >= kMostCompanions) return false;
    ++count_;
    break;
  }
  places_[at].store(companion, std::memory_order_release);
  return true;
}

void SideTable::remove(const Companion* companion) {
  const std::lock_guard lock(mutex_);
  for (auto& place : places_) {
    if (place.load(std::memory_order_relaxed) == companion) place.store(removed(), std::memory_order_release);
  }
}

}  // namespace plait::nccl
