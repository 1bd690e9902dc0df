// The shape of a launch: a plain value, the same on all ranks, chosen by a stateless function (NVG-52: few CTAs
// suffice). Users may change it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace plait {

// The ways in which an `sm` queue tells its peers that data has arrived.
enum class Protocol {
  kSimple,  // a store with release after the data, a load with acquire before it: any plan, full bandwidth
  kLl,      // every 16 bytes stored carry 8 bytes of data and their flags: half the bandwidth, no other wait
  kLl128,   // every 128 bytes carry 120 and one flag: for links that never tear what a warp stores at once (NVLink)
};
inline constexpr int kProtocolCount = 3;

const char* name(Protocol protocol);  // "Simple", "LL", "LL128", as NCCL spells them
// In any case. The former names "signals", "packets" and "lines" are taken for one release.
std::optional<Protocol> parse_protocol(std::string_view text);

// The host path: the last part of each block of a long message goes through pinned host memory, by channels of a launch
// of its own, while links carry the rest.
struct HostPath {
  int channels = 0;  // 0: there is no such part
  double share = 0;  // of each block
  // The most that all channels of a rank store per second. More than PCIe takes would queue up before the stores over
  // links.
  double bytes_per_second = 0;

  double percent() const;  // the share, to a tenth: for people
  friend bool operator==(const HostPath&, const HostPath&) = default;
};
inline constexpr int kMostChannels = 64, kMostHostChannels = 4;  // for which GPUs have memory
// A long plan does not fit the argument of a launch, or has more queues than ordinary channels. Its channels have
// memory of their own.
inline constexpr int kLongChannels = 16, kLongQueues = 32;
inline constexpr int kLeastThreads = 64, kMostThreads = 512;  // of a channel
inline constexpr size_t kVectorBytes = 16;                    // what a thread moves at once

// A channel is a CTA, or one for each queue of the plan. It runs the plan (for its last slice perhaps another) by
// itself on slices of the message, with signals and scratch of its own. Channel s of a rank deals with channel s of its
// peers only. So channels of one rank never wait for each other, though queues of one channel may.
struct LaunchShape {
  Protocol protocol = Protocol::kSimple;
  int channels = 16;
  int threads = 512;  // of each, a multiple of 32
  HostPath host = {};
  bool is_long = false;  // for a long plan: Simple, at most kLongChannels channels, no host path

  friend bool operator==(const LaunchShape&, const LaunchShape&) = default;
};

// The part that a rank launches: no more channels than slices, and in each a CTA for each queue of this rank.
struct LaunchGrid {
  int channels = 1;
  int queues = 1;
};

// The shape in words, for so many queues, such as "16 channels, 32 CTAs of 512 threads, Simple". With a host path, ",
// and 4 channels, 8 CTAs for 8.2% through host memory" follows.
std::string to_text(const LaunchShape& shape, int queues);
// Reads PLAIT_LAUNCH, such as "LL:32x512" or "Simple:62x512+4:8%" (where HostPath::bytes_per_second stays 0).
// Throws kInvalidArgument with the expected form.
LaunchShape parse_launch_shape(std::string_view text);

}  // namespace plait
