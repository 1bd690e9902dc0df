// The kernel of a call depends on the alignment of its buffers and of the pieces of its message.
#include "runtime/cuda/kernels/prepared_launch.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <utility>

#include "algorithms/algorithm.hpp"
#include "runtime/cuda/kernels/catalogue.hpp"
#include "runtime/cuda/rank/cuda_rank.hpp"

namespace plait {
namespace {

constexpr DataType kType = DataType::kFloat32;
constexpr LaunchShape kSimpleShape{Protocol::kSimple, 8, 256}, kLlShape{Protocol::kLl, 64, 512};

// The launch of rank 0 of two.
PreparedLaunch prepared(Collective collective, size_t count, const LaunchShape& shape, const char* algorithm) {
  const Call call{collective, kType, ReduceOp::kSum, 0, count};
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = 2;
  arguments.engine = Engine::kSm;
  arguments.access = Access::kStaged;
  const VerifiedPlan plan = verify(make_plan(algorithm, arguments));
  DeviceRank self;
  self.ranks = 2;
  for (int rank = 0; rank < 2; ++rank) self.blocks[rank] = reinterpret_cast<std::byte*>(uint64_t{1} << (40 + rank));
  return PreparedLaunch(bind(plan, call, 0, CudaRank::limits(shape, plan.plan())), call, shape, self, 0);
}

// The kernel of such a launch. Buffers begin so many bytes after an aligned address.
const void* kernel_for(Collective collective, size_t count, const LaunchShape& shape, size_t input_at,
                       size_t output_at) {
  PreparedLaunch launch = prepared(collective, count, shape, "flat(store)");
  const auto at = [](int region, size_t bytes) { return reinterpret_cast<void*>((uint64_t{1} << region) + bytes); };
  return launch.launch(at(44, input_at), at(45, output_at)).kernel.function;
}

TEST(PreparedLaunch, SimpleUsesVectorsIfAllPiecesAreAligned) {
  const void* const aligned = call_kernel(CallKernel::kSimpleAligned, kType);
  const void* const unaligned = call_kernel(CallKernel::kSimpleAny, kType);
  ASSERT_NE(aligned, unaligned);
  for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter}) {
    const auto kernel = [&](size_t count, size_t input_at, size_t output_at) {
      return kernel_for(collective, count, kSimpleShape, input_at, output_at);
    };
    for (const size_t count : {size_t{4000}, size_t{4} << 20}) {  // one slice, and many
      EXPECT_EQ(kernel(count, 0, 0), aligned) << name(collective);
      EXPECT_EQ(kernel(count, 16, 48), aligned) << name(collective);
      EXPECT_EQ(kernel(count, 4, 0), unaligned) << name(collective);
      EXPECT_EQ(kernel(count, 0, 8), unaligned) << name(collective);
      EXPECT_EQ(kernel(count, 12, 12), unaligned) << name(collective);
      // With an odd count, blocks of ranks begin between vectors. A message without blocks may end there.
      const bool has_blocks = has_rank_blocks(collective);
      EXPECT_EQ(kernel(count + 1, 0, 0), has_blocks ? unaligned : aligned) << name(collective) << ", " << count + 1;
    }
  }
}

TEST(PreparedLaunch, TwoShotCallsUseWordsIfAllPiecesAreAligned) {
  for (const LaunchShape& shape : {kLlShape, LaunchShape{Protocol::kLl128, 64, 512}}) {
    const auto kernel = [&](size_t count, size_t input_at, size_t output_at) {
      return kernel_for(Collective::kAllGather, count, shape, input_at, output_at);
    };
    const auto two_shot_kernel = [&](bool is_aligned) {
      return call_kernel(shape.protocol == Protocol::kLl ? two_shot_ll(1, is_aligned) : two_shot_ll128(0, is_aligned),
                         kType);
    };
    const void *const aligned = two_shot_kernel(true), *const any = two_shot_kernel(false);
    ASSERT_NE(aligned, any);
    EXPECT_EQ(kernel(64, 0, 0), aligned);
    EXPECT_EQ(kernel(64, 8, 24), aligned);
    EXPECT_EQ(kernel(64, 4, 0), any);
    EXPECT_EQ(kernel(64, 0, 4), any);
    EXPECT_EQ(kernel(63, 0, 0), any);  // half a word at the end of each block
  }
}

// A launch reports its grid: no more channels than slices, and for each channel a CTA for each queue of the rank.
TEST(PreparedLaunch, SaysItsGrid) {
  const auto grid = [](size_t count, const char* algorithm) {
    const PreparedLaunch launch = prepared(Collective::kAllReduce, count, kSimpleShape, algorithm);
    EXPECT_EQ(launch.ctas(), launch.grid().channels * launch.grid().queues);
    return std::pair(launch.grid().channels, launch.grid().queues);
  };
  EXPECT_EQ(grid(1 << 20, "flat(store)"), std::pair(8, 1));
  EXPECT_EQ(grid(1 << 20, "flat(store, parts=2)"), std::pair(8, 3));
  EXPECT_EQ(grid(2, "flat(store)"), std::pair(1, 1));
}

}  // namespace
}  // namespace plait
