// How a plan is laid over a GPU: a plain value, the same on all ranks, chosen by a stateless function (NVG-52: few CTAs
// suffice) and open to change.
#pragma once

#include <string>
#include <string_view>

namespace plait {

// How an `sm` lane tells its peers that data has arrived.
enum class Protocol {
  kSignals,  // a store with release after the data, a load with acquire before it: any plan, full bandwidth
  kPackets,  // every 16 bytes stored carry 8 bytes of data and their flags: half the bandwidth, no other wait
  kLines,    // every 128 bytes carry 120 and one flag: for links that never tear what a warp stores at once (NVLink)
};
inline constexpr int kProtocolCount = 3;

const char* name(Protocol protocol);  // "signals", "packets", "lines"

// A strand is a CTA that runs the plan by itself on slices of the message, with signals and scratch of its own; strand
// s of a rank deals with strand s of its peers only. So CTAs of one rank never wait for each other.
struct LaunchShape {
  Protocol protocol = Protocol::kSignals;
  int strands = 16;
  int threads = 512;  // of each, a multiple of 32

  friend bool operator==(const LaunchShape&, const LaunchShape&) = default;
};

// "16 CTAs of 512 threads, signals".
std::string to_text(const LaunchShape& shape);
// Reads PLAIT_LAUNCH, such as "packets:32x512". Throws kInvalidArgument with the expected form.
LaunchShape parse_launch_shape(std::string_view text);

}  // namespace plait
