// The layout of a rank's block: memory of one channel and epoch belongs to nothing else.
#include "runtime/cuda/lowering/device_block.hpp"

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

// Adds all that belongs to the channels of a kind.
template <class Place>
void add_room(std::vector<Range>& ranges) {
  using Room = ChannelRoom<Place>;
  for (int channel = 0; channel < Place::kChannelsWithStates; ++channel) {
    for (int rank = 0; rank < kMostDeviceRanks; ++rank) {
      for (int queue = 0; queue < Room::kQueues; ++queue) {
        ranges.push_back({Room::completed_at(channel, rank, queue), sizeof(uint64_t)});
      }
    }
  }
  for (int channel = 0; channel < Place::kChannels; ++channel) {
    for (const unsigned parity : {0u, 1u}) {
      ranges.push_back({Room::signals_at(channel, parity), Room::kSignals * Room::kSignalStride});
      ranges.push_back({Room::scratch_at(channel, parity), Room::kScratchBytes});
      EXPECT_EQ(Room::scratch_at(channel, parity) % 128, 0u);
    }
  }
}

TEST(DeviceBlock, RegionsDoNotOverlap) {
  std::vector<Range> ranges;
  add_room<OrdinaryPlace>(ranges);
  add_room<LongPlace>(ranges);
  for (int channel = 0; channel < kMostChannels; ++channel) {
    for (const unsigned parity : {0u, 1u}) {
      ranges.push_back({BlockLayout::ll_at(channel, parity), BlockLayout::kLlBytes});
      ranges.push_back({BlockLayout::ll128_at(channel, parity), BlockLayout::kLl128Bytes});
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
  expect_no_overlap(ranges, BlockLayout::total_bytes());
}

// The states of all rooms share a table.
TEST(DeviceBlock, EveryQueueHasAStateOfItsOwn) {
  std::vector<Range> states;
  for (int channel = 0; channel < kAllChannels; ++channel) {
    for (int queue = 0; queue < kMostQueues; ++queue) states.push_back({OrdinaryRoom::state_of(channel, queue), 1});
  }
  for (int channel = 0; channel < kLongChannels; ++channel) {
    for (int queue = 0; queue < kLongQueues; ++queue) states.push_back({LongRoom::state_of(channel, queue), 1});
  }
  EXPECT_EQ(states.size(), static_cast<size_t>(kAllStates));
  expect_no_overlap(states, kAllStates);
}

TEST(DeviceBlock, RegionsInHostMemoryDoNotOverlap) {
  std::vector<Range> ranges;
  for (int channel = kMostChannels; channel < kAllChannels; ++channel) {
    for (const unsigned parity : {0u, 1u}) {
      ranges.push_back(
          {HostBlockLayout::signals_at(channel, parity), OrdinaryRoom::kSignals * OrdinaryRoom::kSignalStride});
      ranges.push_back({HostBlockLayout::scratch_at(channel, parity), HostBlockLayout::kScratchBytes});
      EXPECT_EQ(HostBlockLayout::scratch_at(channel, parity) % 128, 0u);
    }
  }
  expect_no_overlap(ranges, HostBlockLayout::total_bytes());
}

}  // namespace
}  // namespace plait
