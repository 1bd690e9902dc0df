// Chunks must tile a block exactly once, whatever the count.
#include "runtime/message_layout.hpp"

#include <gtest/gtest.h>

#include "support/seed.hpp"

namespace plait {
namespace {

SliceLayout layout_of(size_t block_elements, size_t block_stride, int chunks_per_block, size_t element_bytes) {
  return {block_elements, block_stride, chunk_elements_for(block_elements, chunks_per_block, element_bytes),
          chunks_per_block};
}

void expect_tiles(size_t block_elements, size_t stride, int chunks_per_block, size_t element_bytes) {
  SCOPED_TRACE(testing::Message() << block_elements << " elements of " << element_bytes << " bytes in "
                                  << chunks_per_block << " chunks, stride " << stride);
  const SliceLayout layout = layout_of(block_elements, stride, chunks_per_block, element_bytes);
  ASSERT_EQ(layout.chunk_elements * element_bytes % kChunkAlignment, 0u);
  for (int block = 0; block < 3; ++block) {
    size_t at = static_cast<size_t>(block) * stride;
    for (int i = 0; i < chunks_per_block; ++i) {
      const int chunk = block * chunks_per_block + i;
      ASSERT_EQ(layout.begin(chunk), at);
      const size_t elements = layout.elements(chunk, 1);
      ASSERT_LE(elements, layout.chunk_elements);
      if (elements > 0) {
        ASSERT_EQ((at - static_cast<size_t>(block) * stride) * element_bytes % kChunkAlignment, 0u);
      }
      at += elements;
    }
    ASSERT_EQ(at, static_cast<size_t>(block) * stride + block_elements);
  }
  for (int first = 0; first < chunks_per_block; ++first) {  // neighbours join without gap or overlap
    size_t sum = 0;
    for (int count = 1; first + count <= chunks_per_block; ++count) {
      sum += layout.elements(first + count - 1, 1);
      ASSERT_EQ(layout.elements(first, count), sum);
    }
  }
}

TEST(MessageLayout, SmallBlocks) {
  for (size_t elements = 0; elements < 300; ++elements) {
    for (const int chunks : {1, 2, 3, 8, 19}) expect_tiles(elements, elements, chunks, 4);
  }
}

TEST(MessageLayout, RandomBlocks) {
  test::Random random(test::run_seed());
  for (int i = 0; i < 3000; ++i) {
    const size_t elements = test::between(random, 0, size_t{1} << test::between(random, 0, 40));
    const size_t stride = elements + test::between(random, 0, 1000);
    expect_tiles(elements, stride, static_cast<int>(test::between(random, 1, 40)), size_t{1} << random() % 4);
  }
}

TEST(MessageLayout, ChunksAreNoLargerThanTheyMustBe) {
  EXPECT_EQ(chunk_elements_for(0, 4, 4), 0u);
  EXPECT_EQ(chunk_elements_for(1, 4, 4), 32u);  // one granule of 128 bytes
  EXPECT_EQ(chunk_elements_for(128, 4, 4), 32u);
  EXPECT_EQ(chunk_elements_for(129, 4, 4), 64u);
  EXPECT_EQ(chunk_elements_for(1000, 1, 1), 1024u);
  EXPECT_EQ(chunk_elements_for(1000, 3, 8), 336u);
}

}  // namespace
}  // namespace plait
