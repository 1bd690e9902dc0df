// The blocks in one rank's buffers where their sizes differ: all_gather_v, reduce_scatter_v, gather_v, scatter_v and
// all_to_all_v.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/call.hpp"

namespace plait {

// Elements [first, first + count) of a buffer.
struct BufferBlock {
  size_t first = 0, count = 0;

  size_t end() const { return first + count; }
  friend bool operator==(const BufferBlock&, const BufferBlock&) = default;
};

// The blocks of one buffer as callers give them. `displacements` may be empty: each block follows the one before it.
struct BlockCounts {
  std::span<const size_t> counts;
  std::span<const size_t> displacements = {};
};

// In the order of plan/conditions.hpp: one block, or one for each rank; none if the rank has no such buffer.
struct BufferBlocks {
  std::vector<BufferBlock> input, output;

  friend bool operator==(const BufferBlocks&, const BufferBlocks&) = default;
};

// Reads what a caller gave of one buffer. Throws kInvalidArgument, naming the buffer, unless there are `ranks` counts,
// and as many displacements or none, and all blocks end before the size of any memory.
std::vector<BufferBlock> read_blocks(const BlockCounts& given, int ranks, size_t element_bytes, const char* buffer);

// Elements from the start of the buffer to the end of its last block; the most elements of a block; of all blocks.
size_t extent(std::span<const BufferBlock> blocks);
size_t most_elements(std::span<const BufferBlock> blocks);
size_t all_elements(std::span<const BufferBlock> blocks);

// Two blocks that share elements, or {-1, -1}.
struct BlockPair {
  int a = -1, b = -1;
};
BlockPair find_overlap(std::span<const BufferBlock> blocks);

// A number that stands for the sizes of the blocks, not for where they lie. Never 0.
uint64_t fingerprint_of_counts(std::span<const BufferBlock> blocks);

// A call by counts, and the blocks of the rank that makes it.
struct CallByCounts {
  Call call;
  BufferBlocks blocks;

  friend bool operator==(const CallByCounts&, const CallByCounts&) = default;
};

// Makes it of what a caller gives. `call` has collective, type, operation and root. `input` and `output` are one count,
// or one for each rank, as the collective has it. Those of a buffer that the rank does not have are not looked at, nor
// is the one count where it follows from the others (knows_all_counts()). Throws as read_blocks() does.
CallByCounts call_by_counts(Call call, int ranks, int rank, const BlockCounts& input, const BlockCounts& output);

// Checks the blocks of `rank` in a call whose sizes differ, and its buffers. It checks their numbers, that no two
// blocks of the output share memory, and that the own block is as long at both ends. Input and output must be apart or
// exactly in place. Throws kInvalidArgument. Returns whether they are in place.
bool check_blocks(const Call& call, int ranks, int rank, const BufferBlocks& blocks, const void* input,
                  const void* output);

}  // namespace plait
