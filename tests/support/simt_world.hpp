// Ranks whose kernels run on a CPU: the memory that their GPUs would share, and their reports. Include this before any
// kernel (*.cuh), like simt.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/kernels/queue_kernel.hpp"
#include "support/call_buffers.hpp"
#include "support/seed.hpp"
#include "support/simt.hpp"

namespace plait::test {

class SimtWorld {
 public:
  // A wait gives up after `wait_nanoseconds` of Simt::nanoseconds_now().
  SimtWorld(int ranks, uint64_t seed, uint64_t wait_nanoseconds)
      : ranks_(ranks), random_(seed), machine_(seed), wait_nanoseconds_(wait_nanoseconds) {
    for (int rank = 0; rank < ranks; ++rank) {
      blocks_.push_back(std::unique_ptr<std::byte, decltype(&std::free)>(
          static_cast<std::byte*>(std::calloc(1, BlockLayout::total_bytes())), &std::free));
      host_blocks_.push_back(std::unique_ptr<std::byte, decltype(&std::free)>(
          static_cast<std::byte*>(std::calloc(1, HostBlockLayout::total_bytes())), &std::free));
      states_.emplace_back(kAllStates);
      failures_.emplace_back(kAllStates);
      const std::string of_rank = " of rank " + std::to_string(rank);
      machine_.watch(blocks_.back().get(), BlockLayout::total_bytes(), "the block" + of_rank);
      machine_.watch(host_blocks_.back().get(), HostBlockLayout::total_bytes(), "the block in host memory" + of_rank);
      machine_.watch(states_.back().data(), sizeof(ChannelState) * states_.back().size(), "the states" + of_rank);
    }
  }
  SimtWorld(const SimtWorld&) = delete;
  SimtWorld& operator=(const SimtWorld&) = delete;

  int pick(int low, int high) {
    return static_cast<int>(between(random_, static_cast<uint64_t>(low), static_cast<uint64_t>(high)));
  }
  // Sets the state as if every channel had completed `epoch` epochs without touching memory.
  void begin_epochs_after(uint64_t epoch) {
    for (size_t rank = 0; rank < blocks_.size(); ++rank) {
      for (ChannelState& state : states_[rank]) state.epoch = state.everyone_completed = epoch;
      auto* const completed = reinterpret_cast<uint64_t*>(blocks_[rank].get() + OrdinaryRoom::completed_at(0, 0, 0));
      std::fill(completed, completed + kAllChannels * kMostDeviceRanks * kMostQueues, epoch);
      auto* const of_long = reinterpret_cast<uint64_t*>(blocks_[rank].get() + LongRoom::completed_at(0, 0, 0));
      std::fill(of_long, of_long + kLongChannels * kMostDeviceRanks * kLongQueues, epoch);
    }
  }
  // After so many turns from the start, the host says that the communicator has failed: every wait gives up.
  void abort_after(uint64_t turns, std::function<void()> just_before = [] {}) {
    constexpr size_t kStreamOfHost = 64;  // no rank uses it
    machine_.launch(kStreamOfHost, {1}, {1}, [this, turns, just_before] {
      for (uint64_t turn = 0; turn < turns; ++turn) Simt::pause();
      just_before();
      aborted_ = 1;
    });
  }
  void find_races() { machine_.find_races(); }
  void run() { machine_.run(); }
  // The memory that a rank shares with the others.
  std::vector<std::byte> memory_of(size_t rank) const {
    const std::byte* const block = blocks_[rank].get();
    return {block, block + BlockLayout::total_bytes()};
  }
  // The waits that gave up.
  std::vector<ChannelFailure> reports_of(size_t rank) const {
    std::vector<ChannelFailure> reports;
    std::copy_if(failures_[rank].begin(), failures_[rank].end(), std::back_inserter(reports),
                 [](const auto& it) { return it.state != ChannelFailure::kNone; });
    return reports;
  }
  int failures_of(size_t rank) const { return static_cast<int>(reports_of(rank).size()); }

 protected:
  DeviceRank end_of(int rank) {
    const auto r = static_cast<size_t>(rank);
    DeviceRank self;
    self.rank = rank;
    self.ranks = ranks_;
    self.states = states_[r].data();
    for (size_t peer = 0; peer < blocks_.size(); ++peer) self.blocks[peer] = blocks_[peer].get();
    self.failures = failures_[r].data();
    self.aborted = &aborted_;
    self.wait_nanoseconds = wait_nanoseconds_;
    return self;
  }

  // Watches the buffers of a rank's calls.
  void watch(const CallBuffers& buffers, int rank) {
    for (const auto memory : buffers.memory()) {
      machine_.watch(memory.data(), memory.size(), "buffers of rank " + std::to_string(rank));
    }
  }

  HostBlocks host_blocks() const {
    HostBlocks blocks;
    for (size_t rank = 0; rank < host_blocks_.size(); ++rank) blocks.of[rank] = host_blocks_[rank].get();
    return blocks;
  }

  const int ranks_;
  Random random_;
  Simt machine_;

 private:
  const uint64_t wait_nanoseconds_;
  std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> blocks_, host_blocks_;
  std::vector<std::vector<ChannelState>> states_;
  std::vector<std::vector<ChannelFailure>> failures_;
  uint32_t aborted_ = 0;
};

}  // namespace plait::test
