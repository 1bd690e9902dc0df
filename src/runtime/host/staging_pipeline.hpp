// Performs calls on buffers of a GPU by calls on host memory, chunk after chunk (NVG-54, NVG-62).
//
//   copies in    chunk 4  chunk 5  chunk 6      the GPU's copy engine
//   lane 0       chunk 2 ───────►  chunk 4 ──►  shared memory in a host, the network between hosts
//   lane 1       ──────►  chunk 3 ───────►      the same, by another thread
//   copies out   chunk 1  chunk 2  chunk 3      the GPU's other copy engine
//
// A chunk of the input and one of the output have a slot of staging memory each. Slots and lanes are used in turn, by
// the chunks of all calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/settings.hpp"
#include "runtime/call_chunks.hpp"
#include "runtime/premul_scalar.hpp"
#include "runtime/staging_device.hpp"

namespace plait {

struct StagedCall {
  Call call;
  CallChunks chunks;
  const void* input = nullptr;
  void* output = nullptr;
  std::optional<Scalar> scalar = {};  // this rank's input is multiplied by it
  bool is_in_place = false;
  uint64_t first_chunk = 0;  // its number, from StagingPipeline::number()
};

class StagingPipeline {
 public:
  // While each lane performs a chunk, another one comes in, and one goes out.
  static constexpr size_t slots_for(size_t lanes) { return lanes + 2; }

  // Bytes of staging memory for chunks of so many bytes.
  static size_t bytes_for(size_t lanes, size_t chunk_bytes);

  // How this rank waits for the GPU, as in HostRank::Options.
  struct Waits {
    WaitPolicy policy = WaitPolicy::kAuto;
    bool crowded = false;
  };

  // The device outlives this and has bytes_for(`lanes`, `chunk_bytes`).
  StagingPipeline(StagingDevice& device, size_t lanes, size_t chunk_bytes, int rank, Waits waits);

  // ---- For the thread that makes calls.

  // Gives the chunks of a call their numbers.
  void number(StagedCall& call);
  // Enqueues the copies of a call after StagingDevice::begin(). Where CUDA has queued all that it can, this waits for
  // perform(). Throws what the device throws; the GPU waits for ever then, unless give_up() is called.
  void enqueue(const StagedCall& call);

  // ---- For the threads that perform them, one for each lane.

  // Performs chunk `i` on host memory. All ranks perform the same chunks by the same lanes in the same order.
  using Perform = std::function<void(size_t i, const void* input, void* output)>;
  // Throws if the communicator has failed: the GPU is not waited for any more.
  using Look = std::function<void()>;
  // A lane's part of a call, after its part of the calls before. Throws what `perform` and `look` throw.
  void perform(const StagedCall& call, size_t lane, const Perform& perform, const Look& look);
  // The GPU waits for nothing any more, now and later. The data that it copies out is undefined. Any thread.
  void give_up() noexcept;

 private:
  void enqueue_in(const StagedCall& call, size_t i);
  void enqueue_out(const StagedCall& call, size_t i);
  void multiply(const StagedCall& call, size_t i) const;
  void await(const StagingCounter& counter, uint64_t chunk, const Look& look) const;

  size_t lane_of(uint64_t chunk) const { return chunk % lanes_; }
  std::byte* slot_of(uint64_t chunk) const { return memory_ + chunk % slots_ * slot_bytes_; }
  std::byte* input_of(uint64_t chunk) const { return slot_of(chunk); }
  std::byte* output_of(uint64_t chunk) const { return slot_of(chunk) + chunk_bytes_; }
  std::byte* scalar_of(uint64_t chunk) const { return slot_of(chunk) + 2 * chunk_bytes_; }

  StagingDevice& device_;
  const size_t lanes_, slots_;
  const size_t chunk_bytes_;  // whole cache lines
  const size_t slot_bytes_;
  std::byte* const memory_;
  const int rank_;
  const Waits waits_;
  uint64_t last_chunk_ = 0;
};

}  // namespace plait
