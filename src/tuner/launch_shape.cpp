// Launch shapes in words.
#include "tuner/launch_shape.hpp"

#include <charconv>
#include <cmath>

#include "base/error.hpp"

namespace plait {

const char* name(Protocol protocol) {
  constexpr const char* kNames[kProtocolCount] = {"signals", "packets", "lines"};
  return kNames[static_cast<int>(protocol)];
}

double HostPart::percent() const { return std::round(share * 1000) / 10; }

std::string to_text(const LaunchShape& shape) {
  std::string text = join(shape.strands, shape.strands == 1 ? " CTA of " : " CTAs of ", shape.threads, " threads, ",
                          name(shape.protocol));
  if (shape.host.strands > 0) {
    text += join(", and ", shape.host.strands, " for ", shape.host.percent(), "% through host memory");
  }
  return text;
}

LaunchShape parse_launch_shape(std::string_view text) {
  const auto refuse = [&] {
    fail(ErrorCode::kInvalidArgument, "PLAIT_LAUNCH is '", text,
         "'; it should look like signals:16x512, lines:32x512 or packets:8x256: protocol, 1 to ", kMostStrands,
         " CTAs, and threads of each, a multiple of 32 from ", kLeastThreads, " to ", kMostThreads,
         "; with signals perhaps +4:8% behind that, for 1 to ", kMostHostStrands,
         " CTAs more that carry 8% through host memory");
  };
  LaunchShape shape;
  const size_t colon = text.find(':');
  const std::string_view protocol = text.substr(0, colon);
  if (colon == std::string_view::npos) refuse();
  int candidate = 0;
  while (candidate < kProtocolCount && protocol != name(static_cast<Protocol>(candidate))) ++candidate;
  if (candidate == kProtocolCount) refuse();
  shape.protocol = static_cast<Protocol>(candidate);
  const char* const end = text.data() + text.size();
  const auto strands = std::from_chars(text.data() + colon + 1, end, shape.strands);
  if (strands.ec != std::errc() || strands.ptr == end || *strands.ptr != 'x') refuse();
  const auto threads = std::from_chars(strands.ptr + 1, end, shape.threads);
  if (threads.ec != std::errc()) refuse();
  if (shape.strands < 1 || shape.threads < kLeastThreads || shape.threads % 32 != 0) refuse();
  if (shape.strands > kMostStrands || shape.threads > kMostThreads) refuse();
  if (threads.ptr == end) return shape;
  if (*threads.ptr != '+' || shape.protocol != Protocol::kSignals) refuse();
  const auto host = std::from_chars(threads.ptr + 1, end, shape.host.strands);
  if (host.ec != std::errc() || host.ptr == end || *host.ptr != ':' || shape.host.strands < 1) refuse();
  if (shape.host.strands > kMostHostStrands) refuse();
  const auto percent = std::from_chars(host.ptr + 1, end, shape.host.share);
  if (percent.ec != std::errc() || std::string_view(percent.ptr, end) != "%") refuse();
  if (!(shape.host.share > 0 && shape.host.share < 100)) refuse();
  shape.host.share /= 100;
  return shape;
}

}  // namespace plait
