// Chooses the chunks of staged calls by a model of their pipeline.
#include "api/chunk_choice.hpp"

#include <algorithm>

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

// The slowest stage performs all chunks; the others add what they take for one, at the start and at the end.
double staged_seconds(size_t message_bytes, size_t chunk_bytes, const HostSeconds& host_seconds) {
  const size_t chunks = std::max<size_t>(1, divided(message_bytes, chunk_bytes));
  const size_t bytes = divided(message_bytes, chunks);
  const double copy = staging_seconds(bytes), host = kProxySeconds + host_seconds(bytes);
  return 2 * copy + host + static_cast<double>(chunks - 1) * std::max(copy, host);
}

size_t choose_chunk(size_t message_bytes, size_t most_bytes, const HostSeconds& host_seconds) {
  const size_t fewest = std::max<size_t>(1, divided(message_bytes, most_bytes));
  size_t best = std::max<size_t>(1, divided(message_bytes, fewest));
  double least = staged_seconds(message_bytes, best, host_seconds);
  for (size_t chunks = fewest + 1; chunks <= kMostChunks; chunks += std::max<size_t>(1, chunks / 4)) {
    const size_t bytes = divided(message_bytes, chunks);
    if (bytes < kLeastChunkBytes) break;
    const double seconds = staged_seconds(message_bytes, bytes, host_seconds);
    if (seconds >= least) continue;
    least = seconds;
    best = bytes;
  }
  return best;
}

}  // namespace plait
