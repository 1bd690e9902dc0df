// Cuts a call into calls on parts of its message, for pipelines (NVG-62). While one part is on the network, the one
// after it comes out of the GPU, and the one before it goes back.
//
// A chunk is the same part of every block, so it is a call of the same collective with fewer elements. In memory of its
// own the blocks of a chunk follow each other.
#pragma once

#include <cstddef>

#include "runtime/call.hpp"
#include "runtime/staging_device.hpp"

namespace plait {

class CallChunks {
 public:
  // `chunk_bytes`: of the message of a chunk, which has whole cache lines of each block where that leaves enough, and
  // at least one element of each. All ranks cut alike.
  CallChunks(const Call& call, int ranks, int rank, size_t chunk_bytes);

  // The same chunks of another call, whose blocks are as long.
  CallChunks with(const Call& other) const;

  // At least one, since calls without elements are calls.
  size_t count() const { return count_; }
  // The call that performs chunk `i`. All but the last are equal.
  Call call(size_t i) const;
  // Bytes from the start of the rank's buffers to the first row of a chunk.
  size_t offset(size_t i) const { return i * elements_ * size_of(call_.type); }
  // Where the chunk lies in the rank's input and output; no rows where it has none.
  StagedRows input(size_t i) const;
  StagedRows output(size_t i) const;

 private:
  size_t elements_in(size_t i) const;
  StagedRows rows(size_t i, size_t elements_of_rank) const;

  Call call_;
  int ranks_;
  int rank_;
  size_t elements_;  // of a block, in each chunk but the last
  size_t count_;
};

}  // namespace plait
