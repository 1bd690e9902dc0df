// The rooms of shared memory in which a rank's epochs take turns (segment.hpp).
//
// A room is signals and scratch for one epoch. Long slices take turns in two large rooms. Short ones have kSmallRooms
// of their own, so that a rank that waits for nobody (the root of a broadcast, a rank that gives to a gather) is many
// calls ahead before it has to look at the others. Where ranks outnumber cores, that saves a switch of the core for
// nearly each call. All ranks run the same slices in the same order, so they find the same room for each.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace plait {

inline constexpr uint32_t kLargeRooms = 2;
inline constexpr uint32_t kSmallRooms = 32;
inline constexpr uint32_t kRooms = kLargeRooms + kSmallRooms;

inline constexpr int kMostSmallSignals = 64;

// All small rooms of a rank together have no more scratch than one large room.
constexpr size_t small_scratch_bytes(size_t large) { return std::min<size_t>(large / kSmallRooms / 64 * 64, 8 << 10); }
constexpr int small_signals(int large) { return std::min(large, kMostSmallSignals); }

class EpochRooms {
 public:
  // An epoch's room, and the epoch that must be over everywhere before the room may be used again; 0: none.
  struct Turn {
    uint32_t room = 0;
    uint64_t last_epoch = 0;
  };

  Turn take(bool is_small, uint64_t epoch) {
    const uint32_t room = is_small ? kLargeRooms + static_cast<uint32_t>(small_++ % kSmallRooms)
                                   : static_cast<uint32_t>(large_++ % kLargeRooms);
    const Turn turn{room, last_epochs_[room]};
    last_epochs_[room] = epoch;
    return turn;
  }

 private:
  std::array<uint64_t, kRooms> last_epochs_ = {};
  uint64_t large_ = 0, small_ = 0;  // epochs of each kind so far
};

}  // namespace plait
