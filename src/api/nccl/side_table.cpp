// Changing the side table.
#include "api/nccl/side_table.hpp"

namespace plait::nccl {

bool SideTable::add(Companion* companion) {
  const std::lock_guard lock(mutex_);
  // A handle that NCCL freed behind our back may come again.
  if (const Companion* old = find(companion->handle())) {
    places_[place_where(old)].store(companion, std::memory_order_release);
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
  if (find(companion->handle()) == companion) clear(place_where(companion));
}

// The place of a companion that is there.
size_t SideTable::place_where(const Companion* companion) const {
  size_t at = place_of(companion->handle());
  while (places_[at].load(std::memory_order_relaxed) != companion) at = (at + 1) % kPlaces;
  return at;
}

// Leaves a mark only where a search may have to go on: marks would fill the table in time.
void SideTable::clear(size_t at) {
  places_[at].store(removed(), std::memory_order_release);
  const bool is_last = places_[(at + 1) % kPlaces].load(std::memory_order_relaxed) == nullptr;
  for (; is_last && places_[at].load(std::memory_order_relaxed) == removed(); at = (at + kPlaces - 1) % kPlaces) {
    places_[at].store(nullptr, std::memory_order_release);
    --count_;
  }
}

}  // namespace plait::nccl
