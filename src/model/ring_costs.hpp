// The costs of rings, as profiles have them and closed forms of hierarchies use them.
#pragma once

#include <array>
#include <cstdint>

#include "topology/topology.hpp"

namespace plait {

// The narrowest kind of link that a ring crosses. kMixed: the ring passes several GPUs of each of several nodes, so
// most of its steps stay in a node and some cross the network.
enum class RingMedium : uint8_t {};
inline constexpr auto kMixed = static_cast<RingMedium>(kLinkKindCount);
inline constexpr int kRingMediumCount = kLinkKindCount + 1;
inline RingMedium medium_of(LinkKind kind) { return static_cast<RingMedium>(kind); }
inline const char* name(RingMedium medium) {
  return medium == kMixed ? "mixed" : name(static_cast<LinkKind>(static_cast<uint8_t>(medium)));
}

// A step moves x bytes in step_seconds + (x + half_bytes) / (efficiency B), where B is the stated bandwidth. So a
// message of half_bytes gets half of what a long one gets (UEN-42, UEN-52).
struct RingCosts {
  double step_seconds = 0;   // alpha: start-up of a message
  double efficiency = 1;     // the share of the stated bandwidth that a long message gets
  double half_bytes = 0;     // the message that gets half of that
  double exposed_steps = 0;  // bytes of so many steps more are not overlapped: a ring of p takes p - 1 + exposed_steps
};

struct RingTable {
  int parts = 1;  // s of UEN-08: messages of a step
  std::array<RingCosts, kRingMediumCount> of_medium = {};

  const RingCosts& of(RingMedium medium) const { return of_medium[static_cast<size_t>(medium)]; }
  RingCosts& of(RingMedium medium) { return of_medium[static_cast<size_t>(medium)]; }
};

}  // namespace plait
