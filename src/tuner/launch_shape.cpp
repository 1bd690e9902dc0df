// Launch shapes in words.
#include "tuner/launch_shape.hpp"

#include <charconv>

#include "base/error.hpp"

namespace plait {

const char* name(Protocol protocol) {
  constexpr const char* kNames[kProtocolCount] = {"signals", "packets", "lines"};
  return kNames[static_cast<int>(protocol)];
}

std::string to_text(const LaunchShape& shape) {
  return join(shape.strands, shape.strands == 1 ? " CTA of " : " CTAs of ", shape.threads, " threads, ",
              name(shape.protocol));
}

LaunchShape parse_launch_shape(std::string_view text) {
  const auto refuse = [&] {
    fail(ErrorCode::kInvalidArgument, "PLAIT_LAUNCH is '", text,
         "'; it should look like signals:16x512, lines:32x512 or packets:8x256: protocol, CTAs and threads of each, a "
         "multiple of 32");
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
  if (threads.ec != std::errc() || threads.ptr != end) refuse();
  if (shape.strands < 1 || shape.threads < 64 || shape.threads % 32 != 0) refuse();
  return shape;
}

}  // namespace plait
