// Stages calls chunk by chunk.
#include "runtime/host/staging_pipeline.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "runtime/host/scale.hpp"
#include "runtime/message_layout.hpp"
#include "runtime/waiting.hpp"

namespace plait {
namespace {

constexpr size_t kScalarBytes = kChunkAlignment;

size_t whole_lines(size_t bytes) { return (bytes + kChunkAlignment - 1) / kChunkAlignment * kChunkAlignment; }

// The root of a broadcast in place has its output already.
bool has_output_already(const StagedCall& it, int rank) {
  return it.is_in_place && it.call.collective == Collective::kBroadcast && it.call.root == rank;
}

}  // namespace

size_t StagingPipeline::bytes_for(size_t lanes, size_t chunk_bytes) {
  return slots_for(lanes) * (2 * whole_lines(chunk_bytes) + kScalarBytes);
}

StagingPipeline::StagingPipeline(StagingDevice& device, size_t lanes, size_t chunk_bytes, int rank, Waits waits)
    : device_(device),
      lanes_(lanes),
      slots_(slots_for(lanes)),
      chunk_bytes_(whole_lines(chunk_bytes)),
      slot_bytes_(2 * chunk_bytes_ + kScalarBytes),
      memory_(device.memory().data()),
      rank_(rank),
      waits_(waits) {
  if (device.memory().size() < bytes_for(lanes, chunk_bytes)) {
    fail(ErrorCode::kInternal, "staging memory of ", device.memory().size(), " bytes is too short for chunks of ",
         chunk_bytes);
  }
}

void StagingPipeline::number(StagedCall& call) {
  call.first_chunk = last_chunk_ + 1;
  last_chunk_ += call.chunks.count();
}

// In an order in which each operation waits for earlier ones only, so that it does not matter which of them the GPU
// puts into one queue.
void StagingPipeline::enqueue(const StagedCall& call) {
  const size_t chunks = call.chunks.count();
  for (size_t i = 0; i < std::min(chunks, slots_); ++i) enqueue_in(call, i);
  for (size_t i = 0; i < chunks; ++i) {
    enqueue_out(call, i);
    if (i + slots_ < chunks) enqueue_in(call, i + slots_);
  }
}

void StagingPipeline::enqueue_in(const StagedCall& call, size_t i) {
  const uint64_t chunk = call.first_chunk + i;
  if (chunk > slots_) device_.await_before_in(lane_of(chunk - slots_), chunk - slots_);
  if (call.scalar && call.scalar->on_device != nullptr) {
    const size_t bytes = size_of(call.call.type);
    device_.copy_in(call.scalar->on_device, scalar_of(chunk), {1, bytes, bytes});
  }
  const StagedRows rows = call.chunks.input(i);
  if (rows.total_bytes() > 0) {
    device_.copy_in(static_cast<const std::byte*>(call.input) + call.chunks.offset(i), input_of(chunk), rows);
  }
  device_.count_in(chunk);
}

void StagingPipeline::enqueue_out(const StagedCall& call, size_t i) {
  const uint64_t chunk = call.first_chunk + i;
  device_.await_before_out(lane_of(chunk), chunk);
  const StagedRows rows = has_output_already(call, rank_) ? StagedRows{} : call.chunks.output(i);
  if (rows.total_bytes() > 0) {
    device_.copy_out(output_of(chunk), static_cast<std::byte*>(call.output) + call.chunks.offset(i), rows);
  }
  device_.count_out(chunk);
}

void StagingPipeline::perform(const StagedCall& call, size_t lane, const Perform& perform, const Look& look) {
  StagingCounters& counters = device_.counters();
  for (size_t i = 0; i < call.chunks.count(); ++i) {
    const uint64_t chunk = call.first_chunk + i;
    if (lane_of(chunk) != lane) continue;
    await(counters.in, chunk, look);
    if (call.scalar) multiply(call, i);
    if (chunk > slots_) await(counters.out, chunk - slots_, look);
    perform(i, input_of(chunk), output_of(chunk));
    std::atomic<uint64_t>& performed = counters.performed[lane].chunk;
    uint64_t before = performed.load(std::memory_order_relaxed);
    while (before < chunk && !performed.compare_exchange_weak(before, chunk, std::memory_order_release)) {
    }
  }
}

void StagingPipeline::give_up() noexcept {
  for (StagingCounter& it : device_.counters().performed) {
    it.chunk.store(StagingDevice::kAllChunks, std::memory_order_release);
  }
}

void StagingPipeline::multiply(const StagedCall& call, size_t i) const {
  const uint64_t chunk = call.first_chunk + i;
  Scalar value = *call.scalar;
  if (value.on_device != nullptr) {
    std::memcpy(value.value.data(), scalar_of(chunk), size_of(call.call.type));
    value.on_device = nullptr;
  }
  const size_t elements = call.chunks.input(i).total_bytes() / size_of(call.call.type);
  scale(input_of(chunk), input_of(chunk), elements, value);
}

// The GPU comes to a call when it has done all that its stream held before, which takes as long as it likes.
void StagingPipeline::await(const StagingCounter& counter, uint64_t chunk, const Look& look) const {
  Backoff backoff(waits_.policy, waits_.crowded);
  while (counter.chunk.load(std::memory_order_acquire) < chunk) {
    if (backoff.pause()) look();
  }
}

}  // namespace plait
