// Launch shapes in words.
#include "tuner/launch_shape.hpp"

#include <charconv>
#include <cmath>
#include <optional>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "base/names.hpp"

namespace plait {

namespace {

// "16 channels, 32 CTAs"
std::string channels_text(int channels, int queues) {
  return join(counted(channels, "channel"), ", ", counted(channels * queues, "CTA"));
}

}  // namespace

const char* name(Protocol protocol) {
  constexpr const char* kNames[kProtocolCount] = {"Simple", "LL", "LL128"};
  return kNames[static_cast<int>(protocol)];
}

std::optional<Protocol> parse_protocol(std::string_view text) {
  constexpr const char* kOldNames[kProtocolCount] = {"signals", "packets", "lines"};
  for (int i = 0; i < kProtocolCount; ++i) {
    const auto protocol = static_cast<Protocol>(i);
    if (same_name(text, name(protocol)) || text == kOldNames[i]) return protocol;
  }
  return std::nullopt;
}

double HostPath::percent() const { return std::round(share * 1000) / 10; }

std::string to_text(const LaunchShape& shape, int queues) {
  std::string text =
      join(channels_text(shape.channels, queues), " of ", counted(shape.threads, "thread"), ", ", name(shape.protocol));
  if (shape.host.channels > 0) {
    text += join(", and ", channels_text(shape.host.channels, queues), " for ", shape.host.percent(),
                 "% through host memory");
  }
  return text;
}

LaunchShape parse_launch_shape(std::string_view text) {
  const auto refuse = [&] {
    fail(ErrorCode::kInvalidArgument, "PLAIT_LAUNCH is '", text,
         "'; it should look like Simple:16x512, LL128:32x512 or LL:8x256: protocol, 1 to ", kMostChannels,
         " channels, and threads of each of their CTAs, a multiple of 32 from ", kLeastThreads, " to ", kMostThreads,
         "; with Simple perhaps +4:8% behind that, for 1 to ", kMostHostChannels,
         " channels more that carry 8% through host memory");
  };
  LaunchShape shape;
  const size_t colon = text.find(':');
  const std::string_view protocol = text.substr(0, colon);
  if (colon == std::string_view::npos) refuse();
  const auto parsed = parse_protocol(protocol);
  if (!parsed) refuse();
  shape.protocol = *parsed;
  const char* const end = text.data() + text.size();
  const auto channels = std::from_chars(text.data() + colon + 1, end, shape.channels);
  if (channels.ec != std::errc() || channels.ptr == end || *channels.ptr != 'x') refuse();
  const auto threads = std::from_chars(channels.ptr + 1, end, shape.threads);
  if (threads.ec != std::errc()) refuse();
  if (shape.channels < 1 || shape.threads < kLeastThreads || shape.threads % 32 != 0) refuse();
  if (shape.channels > kMostChannels || shape.threads > kMostThreads) refuse();
  if (threads.ptr == end) return shape;
  if (*threads.ptr != '+' || shape.protocol != Protocol::kSimple) refuse();
  const auto host = std::from_chars(threads.ptr + 1, end, shape.host.channels);
  if (host.ec != std::errc() || host.ptr == end || *host.ptr != ':' || shape.host.channels < 1) refuse();
  if (shape.host.channels > kMostHostChannels) refuse();
  const auto percent = std::from_chars(host.ptr + 1, end, shape.host.share);
  if (percent.ec != std::errc() || std::string_view(percent.ptr, end) != "%") refuse();
  if (!(shape.host.share > 0 && shape.host.share < 100)) refuse();
  shape.host.share /= 100;
  return shape;
}

}  // namespace plait
