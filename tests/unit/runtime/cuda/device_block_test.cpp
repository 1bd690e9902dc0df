// Where things lie in the memory of ranks: what belongs to one strand and epoch is nobody else's.
#include "runtime/cuda/device_block.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace plait {
namespace {

using Range = std::pair<size_t, size_t>;  // first byte, bytes

void expect_apart(std::vector<Range> ranges, size_t total) {
  std::sort(ranges.begin(), ranges.end());
  size_t end = 0;
  for (const auto& [first, bytes] : ranges) {
    EXPECT_GE(first, end);
    end = first + bytes;
  }
  EXPECT_LE(end, total);
}

TEST(DeviceBlock, RegionsAreApart) {
  std::vector<Range> ranges;
  for (int strand = 0; strand < kAllStrands; ++strand) {
    for (int rank = 0; rank < kMostDeviceRanks; ++rank) {
      for (int lane = 0; lane < kMostLanes; ++lane) {
        ranges.push_back({BlockLayout::completed_at(strand, rank, lane), sizeof(uint64_t)});
      }
    }
  }
  for (int strand = 0; strand < kMostStrands; ++strand) {
    for (const unsigned parity : {0u, 1u}) {
      ranges.push_back({BlockLayout::signals_at(strand, parity), BlockLayout::kSignals * BlockLayout::kSignalStride});
      ranges.push_back({BlockLayout::scratch_at(strand, parity), BlockLayout::kScratchBytes});
      ranges.push_back({BlockLayout::packets_at(strand, parity), BlockLayout::kPacketBytes});
      ranges.push_back({BlockLayout::lines_at(strand, parity), BlockLayout::kLineBytes});
      EXPECT_EQ(BlockLayout::scratch_at(strand, parity) % 128, 0u);
    }
  }
  for (int rank = 0; rank < kMostDeviceRanks; ++rank) {
    for (uint32_t strand = 0; strand < kMostMessageStrands; ++strand) {
      ranges.push_back({BlockLayout::filled_at(rank, strand), sizeof(uint64_t)});
      ranges.push_back({BlockLayout::emptied_at(rank, strand), sizeof(uint64_t)});
    }
  }
  ranges.push_back({BlockLayout::inboxes_at(), BlockLayout::kInboxBytes});
  for (const GateWay way : {GateWay::kCollective, GateWay::kSend, GateWay::kReceive}) {
    for (int rank = 0; rank < kMostDeviceRanks; ++rank) {
      ranges.push_back({BlockLayout::gate_at(way, rank), sizeof(uint64_t)});
    }
  }
  expect_apart(ranges, BlockLayout::total_bytes());
}

TEST(DeviceBlock, RegionsInHostMemoryAreApart) {
  std::vector<Range> ranges;
  for (int strand = kMostStrands; strand < kAllStrands; ++strand) {
    for (const unsigned parity : {0u, 1u}) {
      ranges.push_back(
          {HostBlockLayout::signals_at(strand, parity), BlockLayout::kSignals * BlockLayout::kSignalStride});
      ranges.push_back({HostBlockLayout::scratch_at(strand, parity), HostBlockLayout::kScratchBytes});
      EXPECT_EQ(HostBlockLayout::scratch_at(strand, parity) % 128, 0u);
    }
  }
  expect_apart(ranges, HostBlockLayout::total_bytes());
}

}  // namespace
}  // namespace plait
