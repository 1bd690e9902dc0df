// A GPU as staged calls see it. Its buffers are staged in host memory, where CPUs and the network take
// data from. Tests have one of their own that is no GPU.
//
// All copies of a call are enqueued when it is made. The GPU and the CPU then tell each other by counters in pinned
// memory how far they are. So the thread that waits for the GPU never has to call CUDA. CUDA keeps its callers waiting
// while another thread frees memory, say, and that one may wait for this very call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace plait {

// Rows of equal length. In a buffer of the GPU, `stride` bytes lie between the starts of two rows; in staging memory
// each row follows the one before it.
struct StagedRows {
  size_t count = 0;
  size_t bytes = 0;  // of a row
  size_t stride = 0;

  size_t total_bytes() const { return count * bytes; }
};

// A number that one side writes and the other reads, in a cache line of its own.
struct alignas(64) StagingCounter {
  std::atomic<uint64_t> chunk{0};
};

// Chunks of all calls have numbers from 1 on, and are performed by lanes in turn, which are threads of the CPU. Each
// counter is the number of the last chunk that has come so far.
struct StagingCounters {
  static constexpr size_t kMostLanes = 8;

  StagingCounter in;                     // is in host memory; the GPU writes it
  StagingCounter out;                    // is in the GPU's buffer; the GPU writes it
  StagingCounter performed[kMostLanes];  // was performed by this lane, which writes it
};

// Functions that may fail throw kSystem, which says what CUDA said. But for ordinal(), memory() and counters() they are
// for the thread that makes calls.
class StagingDevice {
 public:
  // A value for StagingCounters::performed that ends all waits of the GPU. The GPU compares signed numbers.
  static constexpr uint64_t kAllChunks = INT64_MAX;

  virtual ~StagingDevice() = default;

  virtual int ordinal() const = 0;
  // Pinned host memory, from which copies need no detour.
  virtual std::span<std::byte> memory() = 0;
  virtual StagingCounters& counters() = 0;

  // Copies that are enqueued from here on wait for all that `stream` holds, and for the calls before if these were on
  // other streams. Throws kInvalidArgument, and enqueues nothing, if the stream is captured: a graph would be replayed
  // without the CPU's part.
  virtual void begin(void* stream) = 0;
  // Enqueue copies between the GPU's buffers and staging memory; no rows are no copy. Copies in and copies out do not
  // wait for each other.
  virtual void copy_in(const void* buffer, std::byte* memory, const StagedRows& rows) = 0;
  virtual void copy_out(const std::byte* memory, void* buffer, const StagedRows& rows) = 0;
  // Later copies wait for the lane to have performed this chunk.
  virtual void await_before_in(size_t lane, uint64_t chunk) = 0;
  virtual void await_before_out(size_t lane, uint64_t chunk) = 0;
  // Counts this chunk when the copies so far are done.
  virtual void count_in(uint64_t chunk) = 0;
  virtual void count_out(uint64_t chunk) = 0;
  // Makes `stream` wait for all copies.
  virtual void end(void* stream) = 0;

  // Waits until all copies are done.
  virtual void finish() = 0;
  // Throws if the GPU has failed. Any thread.
  virtual void check() = 0;
};

}  // namespace plait
