// The units of the models: seconds, bytes, and links in GB/s.
#pragma once

namespace plait {

// A link of 1 GB/s carries so many bytes a second.
inline constexpr double kBytesPerGb = 1e9;

}  // namespace plait
