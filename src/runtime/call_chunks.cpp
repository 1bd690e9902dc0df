// Cuts calls into chunks.
#include "runtime/call_chunks.hpp"

#include <algorithm>

#include "runtime/message_layout.hpp"

namespace plait {
namespace {

size_t elements_of_chunk(const Call& call, int ranks, size_t chunk_bytes) {
  const size_t blocks = has_rank_blocks(call.collective) ? static_cast<size_t>(ranks) : 1;
  const size_t granule = std::max<size_t>(1, kChunkAlignment / size_of(call.type));
  const size_t most = std::max<size_t>(1, chunk_bytes / (size_of(call.type) * blocks));
  return most >= granule ? most / granule * granule : most;
}

}  // namespace

CallChunks::CallChunks(const Call& call, int ranks, int rank, size_t chunk_bytes)
    : call_(call),
      ranks_(ranks),
      rank_(rank),
      elements_(elements_of_chunk(call, ranks, chunk_bytes)),
      count_(std::max<size_t>(1, (call.count + elements_ - 1) / elements_)) {}

CallChunks CallChunks::with(const Call& other) const {
  CallChunks chunks = *this;
  chunks.call_ = other;
  return chunks;
}

size_t CallChunks::elements_in(size_t i) const { return std::min(elements_, call_.count - i * elements_); }

Call CallChunks::call(size_t i) const {
  Call chunk = call_;
  chunk.count = elements_in(i);
  return chunk;
}

StagedRows CallChunks::rows(size_t i, size_t elements_of_rank) const {
  if (elements_of_rank == 0) return {};
  const size_t bytes = size_of(call_.type);
  return {elements_of_rank / call_.count, elements_in(i) * bytes, call_.count * bytes};
}

StagedRows CallChunks::input(size_t i) const { return rows(i, input_elements(call_, ranks_, rank_)); }
StagedRows CallChunks::output(size_t i) const { return rows(i, output_elements(call_, ranks_, rank_)); }

}  // namespace plait
