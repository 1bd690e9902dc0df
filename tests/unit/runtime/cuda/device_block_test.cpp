// The layout of a rank's block: memory of one channel and epoch belongs to nothing else.
#include "runtime/cuda/memory/device_block.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace plait {
namespace {

using Range = std::pair<size_t, size_t>;  // first byte, bytes

void expect_no_overlap(std::vector<Range> ranges, size_t total) {
  std::sort(ranges.begin(), ranges.end());
  size_t end = 0;
  for (const auto& [first, bytes] : ranges) {
    EXPECT_GE(first, end);
    end = first + bytes;
  }
  EXPECT_LE(end, total);
}

TEST(DeviceBlock, RegionsDoNotOverlap) {
  std::vector<Range> ranges;
  for (int channel = 0; channel < kAllChannels; ++channel) {
    for (int rank = 0; rank < kMostDeviceRanks; ++rank) {
      for (int queue = 0; queue < kMostQueues; ++queue) {
        ranges.push_back({BlockLayout::completed_at(channel, rank, queue), sizeof(uint64_t)});
      }
    }
  }
  for (int channel = 0; channel < kMostChannels; ++channel) {
    for (const unsigned parity : {0u, 1u}) {
      ranges.push_back({BlockLayout::signals_at(channel, parity), BlockLayout::kSignals * BlockLayout::kSignalStride});
      ranges.push_back({BlockLayout::scratch_at(channel, parity), BlockLayout::kScratchBytes});
      ranges.push_back({BlockLayout::ll_at(channel, parity), BlockLayout::kLlBytes});
      ranges.push_back({BlockLayout::ll128_at(channel, parity), BlockLayout::kLl128Bytes});
      EXPECT_EQ(BlockLayout::scratch_at(channel, parity) % 128, 0u);
    }
  }
  for (int rank = 0; rank < kMostDeviceRanks; ++rank) {
    for (uint32_t channel = 0; channel < kMostMessageChannels; ++channel) {
      ranges.push_back({BlockLayout::tail_at(rank, channel), sizeof(uint64_t)});
      ranges.push_back({BlockLayout::head_at(rank, channel), sizeof(uint64_t)});
    }
  }
  ranges.push_back({BlockLayout::fifos_at(), BlockLayout::kFifoBytes});
  for (const BarrierKind kind : {BarrierKind::kCollective, BarrierKind::kSend, BarrierKind::kReceive}) {
    for (int rank = 0; rank < kMostDeviceRanks; ++rank) {
      ranges.push_back({BlockLayout::barrier_at(kind, rank), sizeof(uint64_t)});
    }
  }
  for (int channel = 0; channel < kLongChannels; ++channel) {
    for (int rank = 0; rank < kMostDeviceRanks; ++rank) {
      for (int queue = 0; queue < kLongQueues; ++queue) {
        ranges.push_back({BlockLayout::long_completed_at(channel, rank, queue), sizeof(uint64_t)});
      }
    }
    for (const unsigned parity : {0u, 1u}) {
      ranges.push_back(
          {BlockLayout::long_signals_at(channel, parity), BlockLayout::kLongSignals * BlockLayout::kSignalStride});
      ranges.push_back({BlockLayout::long_scratch_at(channel, parity), BlockLayout::kScratchBytes});
      EXPECT_EQ(BlockLayout::long_scratch_at(channel, parity) % 128, 0u);
    }
  }
  expect_no_overlap(ranges, BlockLayout::total_bytes());
}

TEST(DeviceBlock, RegionsInHostMemoryDoNotOverlap) {
  std::vector<Range> ranges;
  for (int channel = kMostChannels; channel < kAllChannels; ++channel) {
    for (const unsigned parity : {0u, 1u}) {
      ranges.push_back(
          {HostBlockLayout::signals_at(channel, parity), BlockLayout::kSignals * BlockLayout::kSignalStride});
      ranges.push_back({HostBlockLayout::scratch_at(channel, parity), HostBlockLayout::kScratchBytes});
      EXPECT_EQ(HostBlockLayout::scratch_at(channel, parity) % 128, 0u);
    }
  }
  expect_no_overlap(ranges, HostBlockLayout::total_bytes());
}

}  // namespace
}  // namespace plait
