// Chunks cover every element of a call once, fit their memory, and are the same on all ranks.
#include "runtime/call_chunks.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.hpp"
#include "support/seed.hpp"

namespace plait {
namespace {

// How often the chunks have each byte of a buffer of `elements`.
std::vector<int> covered(const CallChunks& chunks, const Call& call, size_t elements, bool output) {
  std::vector<int> times(elements * size_of(call.type));
  for (size_t i = 0; i < chunks.count(); ++i) {
    const StagedRows rows = output ? chunks.output(i) : chunks.input(i);
    for (size_t row = 0; row < rows.count; ++row) {
      const size_t first = chunks.offset(i) + row * rows.stride;
      for (size_t byte = 0; byte < rows.bytes; ++byte) ++times.at(first + byte);
    }
  }
  return times;
}

TEST(CallChunks, CoverEveryElementOnce) {
  test::Random random(test::run_seed());
  for (int round = 0; round < 400; ++round) {
    const int ranks = 1 + static_cast<int>(random() % 5), rank = static_cast<int>(random() % ranks);
    Call call;
    call.collective = static_cast<Collective>(random() % kCollectiveCount);
    if (call.collective != Collective::kBarrier) {
      call.type = static_cast<DataType>(random() % kDataTypeCount);
      call.count = random() % 3 == 0 ? random() % 10 : random() % 20'000;
      if (has_root(call.collective)) call.root = static_cast<int>(random() % ranks);
    }
    const size_t most_bytes = 64 + random() % 60'000;
    const CallChunks chunks(call, ranks, rank, most_bytes);
    SCOPED_TRACE(join(to_text(call), ", rank ", rank, " of ", ranks, ", chunks of ", most_bytes));
    const std::vector<int> in = covered(chunks, call, input_elements(call, ranks, rank), false);
    const std::vector<int> out = covered(chunks, call, output_elements(call, ranks, rank), true);
    EXPECT_EQ(in, std::vector<int>(in.size(), 1));
    EXPECT_EQ(out, std::vector<int>(out.size(), 1));
    size_t elements = 0;
    for (size_t i = 0; i < chunks.count(); ++i) {
      const Call chunk = chunks.call(i);
      elements += chunk.count;
      EXPECT_LE(message_bytes(chunk, ranks), std::max(most_bytes, static_cast<size_t>(ranks) * size_of(call.type)));
      EXPECT_EQ(chunk, CallChunks(call, ranks, (rank + 1) % ranks, most_bytes).call(i));
      EXPECT_EQ(chunks.input(i).total_bytes(), input_elements(chunk, ranks, rank) * size_of(call.type));
      EXPECT_EQ(chunks.output(i).total_bytes(), output_elements(chunk, ranks, rank) * size_of(call.type));
    }
    EXPECT_EQ(elements, call.count);
  }
}

TEST(CallChunks, AreWholeCacheLines) {
  const auto chunks = [](size_t count, size_t chunk_bytes) {
    return CallChunks({Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, count}, 2, 0, chunk_bytes);
  };
  EXPECT_EQ(chunks(0, 4096).count(), 1u);
  EXPECT_EQ(chunks(1024, 4096).count(), 1u);
  EXPECT_EQ(chunks(1025, 4096).count(), 2u);
  EXPECT_EQ(chunks(5000, 1000).call(0).count, 224u);  // 7 lines of 32
  EXPECT_EQ(chunks(50, 9).call(0).count, 2u);
}

}  // namespace
}  // namespace plait
