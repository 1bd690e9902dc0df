// What each collective demands: which chunks a rank's buffers cover, and whose contributions must end up in the output.
#pragma once

#include "plan/plan.hpp"

namespace plait {

inline constexpr int kMaxRanks = 1 << 14;
inline constexpr int kMaxChunks = 1 << 24;

// The chunks that a caller's buffer holds: whole blocks, `stride` blocks of the message apart, one behind the other.
// Block from * ranks + to of all_to_all is what rank `from` gives to rank `to`: so an input holds neighbouring blocks,
// and an output one of every `ranks` blocks.
struct ChunkWindow {
  int first = 0;  // chunk
  int blocks = 0;
  int stride = 1;
  int chunks_per_block = 1;

  int count() const { return blocks * chunks_per_block; }
  // The chunk at a position in the buffer, counted in chunks.
  int chunk_at(int position) const {
    return first + position / chunks_per_block * stride * chunks_per_block + position % chunks_per_block;
  }
  // The reverse; -1 where the buffer does not hold the chunk.
  int position_of(int chunk) const {
    const int block = (chunk - first) / chunks_per_block;
    if (chunk < first || block % stride != 0 || block / stride >= blocks) return -1;
    return block / stride * chunks_per_block + (chunk - first) % chunks_per_block;
  }
  bool contains(int chunk) const { return position_of(chunk) >= 0; }
  // The first of `chunks` chunks from `chunk` on that the buffer does not hold; -1: it holds them all.
  int first_missing(int chunk, int chunks) const {
    if (!contains(chunk)) return chunk;
    // Blocks that are neighbours in the message, or else the one block of the chunk.
    const int held = stride == 1 ? count() - (chunk - first) : chunks_per_block - (chunk - first) % chunks_per_block;
    return chunks <= held ? -1 : chunk + held;
  }
  friend bool operator==(const ChunkWindow&, const ChunkWindow&) = default;
};

// What the input of `rank` holds. Empty where the rank gives nothing (broadcast: all but the root).
ChunkWindow input_window(const Plan& plan, int rank);
// What the output of `rank` must hold at the end. Empty where it gets nothing (reduce: all but the root).
ChunkWindow output_window(const Plan& plan, int rank);
// Where in the output of `rank` its input chunk lies if the collective runs in place, as a position; -1: nowhere. The
// same chunk of the output, but for all_to_all, whose buffers have their blocks by the other rank.
int shared_position(const Plan& plan, int rank, int input_chunk);
// Chunks in what is told as the size of a message: all of them, but of all_to_all those of one rank.
int chunks_of_size(const Plan& plan);
// Checks the shape that the collective demands (blocks, root, ranks); throws kInvalidPlan.
void check_shape(const Plan& plan);

}  // namespace plait
