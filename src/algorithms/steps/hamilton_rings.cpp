// Packing rings.
#include "algorithms/steps/hamilton_rings.hpp"

#include <algorithm>
#include <utility>

namespace plait {
namespace {

using Ring = std::vector<int>;  // ranks in order

constexpr int kMostRings = 8;  // twice as many with both ways

// Depth-first, one ring after the other, along the links with most room.
class RingSearch {
 public:
  RingSearch(LinkRoom room, int count) : room_(std::move(room)), count_(count) {}

  std::vector<Ring> find() {
    if (!has_room_for(count_)) return {};
    begin_ring();
    return found_;
  }

 private:
  static constexpr int kMostSteps = 20'000;

  // Every rank is entered and left by each ring that is yet to come.
  bool has_room_for(int rings) const {
    for (int rank = 0; rank < room_.ranks(); ++rank) {
      if (room_.out_of(rank) < 2 * rings) return false;
    }
    return true;
  }

  bool begin_ring() {
    if (static_cast<int>(rings_.size()) == count_) {
      found_ = rings_;
      return true;
    }
    rings_.push_back({0});
    is_in_.assign(static_cast<size_t>(room_.ranks()), false);
    is_in_[0] = true;
    if (extend()) return true;
    rings_.pop_back();
    return false;
  }

  bool extend() {
    if (++steps_ > kMostSteps) return false;
    const int last = rings_.back().back();
    if (static_cast<int>(rings_.back().size()) == room_.ranks()) return close(last);
    for (const int next : ways_on(last)) {
      take(last, next, 1);
      is_in_[static_cast<size_t>(next)] = true;
      rings_.back().push_back(next);
      if (extend()) return true;
      rings_.back().pop_back();
      is_in_[static_cast<size_t>(next)] = false;
      take(last, next, -1);
    }
    return false;
  }

  bool close(int last) {
    if (room_.at(last, 0) == 0) return false;
    take(last, 0, 1);
    if (has_room_for(count_ - static_cast<int>(rings_.size())) && begin_ring()) return true;
    is_in_.assign(static_cast<size_t>(room_.ranks()), true);  // the next ring began anew
    take(last, 0, -1);
    return false;
  }

  // The ranks to which this one could go on, those with least room elsewhere first, since they are hard to reach later.
  std::vector<int> ways_on(int rank) const {
    std::vector<int> ways;
    for (int next = 0; next < room_.ranks(); ++next) {
      if (!is_in_[static_cast<size_t>(next)] && room_.at(rank, next) > 0) ways.push_back(next);
    }
    std::stable_sort(ways.begin(), ways.end(), [&](int a, int b) {
      return std::pair(-room_.at(rank, a), room_.out_of(a)) < std::pair(-room_.at(rank, b), room_.out_of(b));
    });
    return ways;
  }

  void take(int a, int b, int rings) {
    room_.at(a, b) -= rings;
    room_.at(b, a) -= rings;
  }

  LinkRoom room_;
  const int count_;
  std::vector<Ring> rings_, found_;
  std::vector<bool> is_in_;  // the ring under way
  int steps_ = 0;
};

std::vector<Ring> both_ways(const std::vector<Ring>& rings) {
  std::vector<Ring> both;
  for (const Ring& ring : rings) {
    both.push_back(ring);
    both.emplace_back(ring.rbegin(), ring.rend());
  }
  return both;
}

}  // namespace

Packing<Ring> pack_rings(int ranks, const std::vector<DeviceLink>& links, int most) {
  if (ranks == 2) return {both_ways({{0, 1}}), links[0].gbps / 2};  // a ring goes there and back
  const std::vector<int> counts = counts_up_to(kMostRings, most > 0 ? std::max(1, most / 2) : 0);
  const auto search = [](LinkRoom room, int count) { return RingSearch(std::move(room), count).find(); };
  const Packing<Ring> packed = best_packing<Ring>(ranks, links, counts, least_cut(ranks, links) / 2, search);
  return {both_ways(packed.shapes), packed.gbps_each};
}

}  // namespace plait
