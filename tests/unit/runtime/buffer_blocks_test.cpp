// Blocks of unequal sizes: what callers give is read or refused, and plans are bound to it, also where counts are more
// than 32 bits hold.
#include "runtime/buffer_blocks.hpp"

#include <gtest/gtest.h>

#include <map>

#include "algorithms/algorithm.hpp"
#include "base/error.hpp"
#include "runtime/bound_plan.hpp"
#include "support/seed.hpp"

namespace plait {
namespace {

VerifiedPlan plan_of(std::string_view algorithm, Collective collective, int ranks) {
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = ranks;
  return verify(make_plan(algorithm, arguments));
}

BindLimits limits_of(size_t scratch_bytes) {
  BindLimits limits;
  limits.scratch_bytes = scratch_bytes;
  limits.signals = 512;
  return limits;
}

template <class Body>
std::string refusal_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.code() == ErrorCode::kInvalidArgument ? error.what() : join("another error: ", error.what());
  }
  return "none";
}

TEST(BufferBlocks, FollowEachOtherWithoutDisplacements) {
  test::Random random(test::run_seed());
  for (int round = 0; round < 200; ++round) {
    std::vector<size_t> counts(1 + random() % 16);
    for (size_t& count : counts) count = test::one_in(random, 3) ? 0 : random() >> (16 + random() % 48);
    const auto blocks = read_blocks({counts}, static_cast<int>(counts.size()), 1, "it");
    size_t next = 0, most = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      EXPECT_EQ(blocks[i].first, next);
      EXPECT_EQ(blocks[i].count, counts[i]);
      next += counts[i];
      most = std::max(most, counts[i]);
    }
    EXPECT_EQ(all_elements(blocks), next);
    EXPECT_EQ(most_elements(blocks), most);
    EXPECT_EQ(extent(blocks), next);
    EXPECT_LT(find_overlap(blocks).a, 0);
  }
}

TEST(BufferBlocks, OverlapsAreFound) {
  test::Random random(test::run_seed());
  for (int round = 0; round < 2000; ++round) {
    std::vector<BufferBlock> blocks(1 + random() % 5);
    for (BufferBlock& block : blocks) block = {random() % 12, random() % 4};
    std::map<size_t, int> owners;
    bool expected = false;
    for (const BufferBlock& block : blocks) {
      for (size_t i = block.first; i < block.end(); ++i) expected |= ++owners[i] > 1;
    }
    const BlockPair pair = find_overlap(blocks);
    EXPECT_EQ(pair.a >= 0, expected);
    if (pair.a < 0) continue;
    const BufferBlock &a = blocks[static_cast<size_t>(pair.a)], &b = blocks[static_cast<size_t>(pair.b)];
    EXPECT_LT(pair.a, pair.b);
    EXPECT_TRUE(a.first < b.end() && b.first < a.end());
  }
}

TEST(BufferBlocks, RefusesWhatNoMemoryHolds) {
  const size_t huge = SIZE_MAX / 4;
  const std::vector<size_t> fits{size_t{1} << 40, size_t{1} << 41}, sum{huge, huge}, far{huge, 1};
  EXPECT_EQ(all_elements(read_blocks({fits}, 2, 8, "it")), size_t{3} << 40);
  for (const BlockCounts& given : {BlockCounts{sum}, BlockCounts{fits, far}}) {
    const std::string words = refusal_of([&] { read_blocks(given, 2, 8, "the input"); });
    EXPECT_NE(words.find("the input: block 0"), std::string::npos) << words;
    EXPECT_NE(words.find("ends behind any memory"), std::string::npos) << words;
  }
  EXPECT_NE(refusal_of([&] { read_blocks({fits}, 3, 8, "it"); }).find("it has 2 counts; expected one for each rank, 3"),
            std::string::npos);
  EXPECT_NE(refusal_of([&] { read_blocks({fits, std::span(fits).first(1)}, 2, 8, "it"); }).find("1 displacements"),
            std::string::npos);
}

TEST(BufferBlocks, CountsHaveFingerprints) {
  const std::vector<BufferBlock> counts{{0, 1}, {1, 2}}, moved{{7, 1}, {3, 2}}, swapped{{0, 2}, {2, 1}};
  EXPECT_EQ(fingerprint_of_counts(counts), fingerprint_of_counts(moved));
  EXPECT_NE(fingerprint_of_counts(counts), fingerprint_of_counts(swapped));
}

// Every element of every block is written once, where it belongs.
TEST(BufferBlocks, PlansAreBoundToThem) {
  test::Random random(test::run_seed());
  const Call call{Collective::kAllGather, DataType::kInt16, ReduceOp::kSum, 0, 0};
  for (const std::string_view algorithm : {"ring", "flat", "bruck", "flat(store)"}) {
    for (int round = 0; round < 20; ++round) {
      const int ranks = 1 + static_cast<int>(random() % 6),
                rank = static_cast<int>(random() % static_cast<uint64_t>(ranks));
      std::vector<size_t> counts, places;
      size_t next = 0;
      for (int r = 0; r < ranks; ++r) {
        counts.push_back(test::one_in(random, 4) ? 0 : random() % 5000);
        places.push_back(next += random() % 9);
        next += counts.back();
      }
      const CallByCounts made = call_by_counts(call, ranks, rank, {}, {counts, places});
      const VerifiedPlan plan = plan_of(algorithm, call.collective, ranks);
      const BoundPlan bound = bind(plan, made.call, rank, limits_of(16'384), made.blocks);
      std::vector<int> written(next + 1, 0);
      size_t slice = 0;
      const auto count_writes = [&](const BoundSlice& it) {
        for (const auto& queue : it.queues) {
          for (const BoundOperation& operation : queue) {
            for (int d = 0; d < operation.destination_count; ++d) {
              const BoundPlace& place = it.places[operation.first_place + static_cast<size_t>(d)];
              if (place.base != kOutputBase) continue;
              const size_t first = (place.offset + slice * bound.slice_bytes) / 2;
              for (size_t i = 0; i < operation.elements; ++i) ++written.at(first + i);
            }
          }
        }
      };
      for (const SliceRun& run : bound.unequal) {
        for (size_t i = 0; i < run.slices; ++i, ++slice) count_writes(run.slice);
      }
      EXPECT_TRUE(bound.unequal.empty() || slice == bound.slices);
      std::vector<int> expected(next + 1, 0);
      for (size_t r = 0; r < counts.size(); ++r)
        std::fill_n(expected.begin() + static_cast<long>(places[r]), counts[r], 1);
      EXPECT_EQ(written, expected) << algorithm << ", " << ranks << " ranks";
    }
  }
}

TEST(BufferBlocks, HugeCountsAreBoundWithoutOverflow) {
  const size_t gibi = size_t{1} << 30;
  const Call call{Collective::kAllToAll, DataType::kFloat64, ReduceOp::kSum, 0, 0};
  const std::vector<size_t> sends{5 * gibi, 3, 9 * gibi}, receives{7, 3, 11 * gibi};
  const CallByCounts made = call_by_counts(call, 3, 1, {sends}, {receives});
  const VerifiedPlan linear = plan_of("linear", Collective::kAllToAll, 3);
  const BoundPlan bound = bind(linear, made.call, 1, limits_of(1 << 20), made.blocks);
  ASSERT_EQ(bound.unequal.size(), 1u);
  EXPECT_EQ(bound.slices, 1u);
  std::map<int, size_t> sent, received;
  for (const auto& queue : bound.unequal[0].slice.queues) {
    for (const BoundOperation& it : queue) {
      if (it.kind == OpKind::kSend) sent[it.peer_rank] = it.bytes;
      if (it.kind == OpKind::kReceive) received[it.peer_rank] = it.bytes;
    }
  }
  EXPECT_EQ(sent, (std::map<int, size_t>{{0, 40 * gibi}, {2, 72 * gibi}}));
  EXPECT_EQ(received, (std::map<int, size_t>{{0, 56}, {2, 88 * gibi}}));

  // In slices, that of the longest block; all that differ are bound, and no more.
  const Call gather{Collective::kAllGather, DataType::kUint8, ReduceOp::kSum, 0, 0};
  const std::vector<size_t> counts{6 * gibi + 1, 17, 3 * gibi};
  const CallByCounts all = call_by_counts(gather, 3, 2, {}, {counts});
  EXPECT_EQ(all.call.count, 9 * gibi + 18);
  const VerifiedPlan ring = plan_of("ring", Collective::kAllGather, 3);
  const BoundPlan sliced = bind(ring, all.call, 2, limits_of(1 << 20), all.blocks);
  EXPECT_GT(sliced.slices * sliced.slice_bytes, 6 * gibi);
  EXPECT_LE((sliced.slices - 1) * sliced.slice_bytes, 6 * gibi);
  EXPECT_LE(sliced.unequal.size(), 6u);
}

TEST(BufferBlocks, APlanThatPassesOnUnknownBlocksIsRefused) {
  const Call call{Collective::kAllToAll, DataType::kUint8, ReduceOp::kSum, 0, 0};
  const std::vector<size_t> counts{1, 2, 3};
  const CallByCounts made = call_by_counts(call, 3, 0, {counts}, {counts});
  EXPECT_THROW(
      bind(plan_of("hierarchical_exchange", Collective::kAllToAll, 3), made.call, 0, limits_of(1 << 20), made.blocks),
      Error);
}

}  // namespace
}  // namespace plait
