// Chooses the chunks of staged calls by a model of their pipeline.
#include "api/chunk_choice.hpp"

#include <algorithm>
#include <vector>

namespace plait {
namespace {

// These figures are assumed until they are measured. They are a copy engine's bandwidth over 16 lanes of PCIe 4.0, the
// start of a copy, and the proxy's time for a chunk.
constexpr double kCopyBytesPerSecond = 25e9;
constexpr double kCopySeconds = 8e-6;
constexpr double kProxySeconds = 5e-6;

// Chunks beyond these make a pipeline no better, and fill CUDA's queue.
constexpr size_t kMostChunks = 32;
constexpr size_t kLeastChunkBytes = 32 << 10;

constexpr size_t divided(size_t bytes, size_t chunks) { return (bytes + chunks - 1) / chunks; }

}  // namespace

double staging_seconds(size_t bytes) { return kCopySeconds + static_cast<double>(bytes) / kCopyBytesPerSecond; }

// Chunks of one length go through three stages: the copy engine in, a lane, the copy engine out. A lane is held to be
// as fast beside others as alone: with TCP its core is the limit. A link that is the limit is much slower than the
// copies, and then the chunks matter little.
double staged_seconds(size_t message_bytes, size_t chunk_bytes, size_t lanes, const HostSeconds& host_seconds) {
  const size_t chunks = std::max<size_t>(1, divided(message_bytes, chunk_bytes));
  const size_t bytes = divided(message_bytes, chunks);
  const double copy = staging_seconds(bytes), host = kProxySeconds + host_seconds(bytes);
  std::vector<double> lane_done(lanes);  // when each stage is done with all chunks so far
  double in_done = 0, out_done = 0;
  for (size_t i = 0; i < chunks; ++i) {
    double& on_host = lane_done[i % lanes];
    in_done += copy;
    on_host = std::max(in_done, on_host) + host;
    out_done = std::max(on_host, out_done) + copy;
  }
  return out_done;
}

size_t choose_chunk(size_t message_bytes, size_t most_bytes, size_t lanes, const HostSeconds& host_seconds) {
  const size_t fewest = std::max<size_t>(1, divided(message_bytes, most_bytes));
  size_t best = std::max<size_t>(1, divided(message_bytes, fewest));
  double least = staged_seconds(message_bytes, best, lanes, host_seconds);
  for (size_t chunks = fewest + 1; chunks <= kMostChunks; chunks += std::max<size_t>(1, chunks / 4)) {
    if (chunks > lanes) chunks = divided(chunks, lanes) * lanes;  // no lane has fewer than others
    const size_t bytes = divided(message_bytes, chunks);
    if (chunks > kMostChunks || bytes < kLeastChunkBytes) break;
    const double seconds = staged_seconds(message_bytes, bytes, lanes, host_seconds);
    if (seconds >= least) continue;
    least = seconds;
    best = bytes;
  }
  return best;
}

}  // namespace plait
