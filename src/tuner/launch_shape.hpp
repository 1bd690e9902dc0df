// How a plan is laid over a GPU: a plain value, the same on all ranks, chosen by a stateless function (NVG-52: few CTAs
// suffice) and open to change.
#pragma once

#include <cstddef>
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

// The last part of each block of a long message, which goes through pinned host memory while links carry the rest: by
// strands of a launch of its own.
struct HostPart {
  int strands = 0;   // 0: there is no such part
  double share = 0;  // of each block
  // What the strands of a rank store at most, all together. More than PCIe takes would queue up in front of what goes
  // over links.
  double bytes_per_second = 0;

  double percent() const;  // the share, to a tenth: for people
  friend bool operator==(const HostPart&, const HostPart&) = default;
};
inline constexpr int kMostStrands = 64, kMostHostStrands = 4;  // for which GPUs have memory
inline constexpr int kLeastThreads = 64, kMostThreads = 512;   // of a strand
inline constexpr size_t kVectorBytes = 16;                     // what a thread moves at once

// A strand is a CTA, or one for each lane of the plan, that runs the plan (or for its last slice another) by itself on
// slices of the message, with signals and scratch of its own; strand s of a rank deals with strand s of its peers only.
// So strands of one rank never wait for each other, though lanes of one strand may.
struct LaunchShape {
  Protocol protocol = Protocol::kSignals;
  int strands = 16;
  int threads = 512;  // of each, a multiple of 32
  HostPart host = {};

  friend bool operator==(const LaunchShape&, const LaunchShape&) = default;
};

// "16 CTAs of 512 threads, signals", "62 CTAs of 512 threads, signals, and 4 for 8.2% through host memory".
std::string to_text(const LaunchShape& shape);
// Reads PLAIT_LAUNCH, such as "packets:32x512" or "signals:62x512+4:8%" (where HostPart::bytes_per_second stays 0).
// Throws kInvalidArgument with the expected form.
LaunchShape parse_launch_shape(std::string_view text);

}  // namespace plait
