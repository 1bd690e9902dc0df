// The demands of each collective: which chunks the buffers of a rank hold, and whose contributions must end up in the
// output.
#pragma once

#include "plan/plan.hpp"

namespace plait {

inline constexpr int kMaxRanks = 1 << 14;
inline constexpr int kMaxChunks = 1 << 24;

// The chunks that a user buffer holds: whole blocks, `stride` blocks of the message apart, one behind the other. In
// all_to_all, rank `from` gives block from * ranks + to to rank `to`. So an input holds neighbouring blocks, and an
// output holds one of every `ranks` blocks.
struct ChunkWindow {
  int first = 0;  // chunk
  int blocks = 0;
  int stride = 1;
  int chunks_per_block = 1;

  int count() const { return blocks * chunks_per_block; }
  // Returns the chunk at a position in the buffer, counted in chunks.
  int chunk_at(int position) const {
    return first + position / chunks_per_block * stride * chunks_per_block + position % chunks_per_block;
  }
  // Returns the position of a chunk, or -1 if the buffer does not hold it.
  int position_of(int chunk) const {
    const int block = (chunk - first) / chunks_per_block;
    if (chunk < first || block % stride != 0 || block / stride >= blocks) return -1;
    return block / stride * chunks_per_block + (chunk - first) % chunks_per_block;
  }
  bool contains(int chunk) const { return position_of(chunk) >= 0; }
  // Returns the first of `chunks` chunks from `chunk` on that the buffer does not hold, or -1 if it holds them all.
  int first_missing(int chunk, int chunks) const {
    if (!contains(chunk)) return chunk;
    // Counts all following blocks if they are neighbours in the message, or else only the chunk's own block.
    const int held = stride == 1 ? count() - (chunk - first) : chunks_per_block - (chunk - first) % chunks_per_block;
    return chunks <= held ? -1 : chunk + held;
  }
  friend bool operator==(const ChunkWindow&, const ChunkWindow&) = default;
};

// The chunks that the input of `rank` holds. Empty if the rank gives nothing (broadcast: all but the root).
ChunkWindow input_window(const Plan& plan, int rank);
// The chunks that the output of `rank` must hold at the end. Empty if it gets nothing (reduce: all but the root).
ChunkWindow output_window(const Plan& plan, int rank);
// The position in the output of `rank` that shares memory with its input chunk if the collective runs in place, or -1.
// It has the same chunk of the output, except in all_to_all, whose buffers are ordered by the other rank.
int shared_position(const Plan& plan, int rank, int input_chunk);
// The chunks of what is called the size of a message: all of them, but in all_to_all those of one rank.
int chunks_of_size(const Plan& plan);
// Checks the shape that the collective demands (blocks, root, ranks). Throws kInvalidPlan.
void check_shape(const Plan& plan, int most_ranks = kMaxRanks);

// Throws kInvalidArgument for a root, other than 0, of a collective that has none.
void check_no_vain_root(Collective collective, int root);

}  // namespace plait
