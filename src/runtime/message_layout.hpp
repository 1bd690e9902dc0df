// Places the chunks of a plan once the size of the message is known.
//
// A message that does not fit the scratch buffers is cut into slices, and the plan is run once a slice. Within a slice
// every block is cut into chunks of equal size. The last chunks of a block may be shorter or empty. So any count works,
// and chunk i always starts at i times the chunk size.
#pragma once

#include <algorithm>
#include <cstddef>

namespace plait {

// A part of every block of a message, in elements.
struct BlockPart {
  size_t first = 0;
  size_t count = 0;
};

struct SliceLayout {
  size_t block_elements = 0;  // of this slice
  size_t block_stride = 0;    // elements from one block of the user's buffer to the next
  size_t chunk_elements = 0;
  int chunks_per_block = 1;

  // Returns the first element of chunk `chunk` in a buffer that holds the whole message.
  size_t begin(int chunk) const {
    return static_cast<size_t>(chunk / chunks_per_block) * block_stride +
           std::min(static_cast<size_t>(chunk % chunks_per_block) * chunk_elements, block_elements);
  }
  // Returns the number of elements in `chunks` chunks from `chunk` on, all in one block.
  size_t elements(int chunk, int chunks) const {
    const size_t first = static_cast<size_t>(chunk % chunks_per_block);
    return std::min((first + chunks) * chunk_elements, block_elements) -
           std::min(first * chunk_elements, block_elements);
  }
};

// Chunks start at multiples of this many bytes from the start of their block and of their slot, so that 16-byte
// accesses (NVG-44) and whole cache lines stay whole.
inline constexpr size_t kChunkAlignment = 128;

// Returns the chunk size in elements if `block_elements` elements are cut into `chunks_per_block` chunks.
inline size_t chunk_elements_for(size_t block_elements, int chunks_per_block, size_t element_bytes) {
  const size_t granule = std::max<size_t>(1, kChunkAlignment / element_bytes);
  const size_t even = (block_elements + chunks_per_block - 1) / static_cast<size_t>(chunks_per_block);
  return (even + granule - 1) / granule * granule;
}

}  // namespace plait
