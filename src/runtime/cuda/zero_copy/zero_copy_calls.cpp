#include "runtime/cuda/zero_copy/zero_copy_calls.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/overlap.hpp"
#include "runtime/cuda/driver/driver.hpp"

namespace plait {
namespace {

static_assert(kMostAgreeingRanks >= kMostDeviceRanks);

bool begins_at_vector(const void* buffer) { return reinterpret_cast<uintptr_t>(buffer) % kVectorBytes == 0; }

// Whether SMs copy the rank's own block.
bool copies_own_block(const CopyProgram& program, const void* input, const void* output) {
  const auto moves = [&](const DeviceCopy& copy) {
    return !is_in_place(copy, static_cast<const std::byte*>(input), static_cast<const std::byte*>(output));
  };
  return std::any_of(program.queues.begin(), program.queues.end(), [&](const CopyQueue& queue) {
    return queue.by_kernel && std::any_of(queue.copies.begin(), queue.copies.end(), moves);
  });
}

}  // namespace

ZeroCopyCalls::ZeroCopyCalls(CommunicatorState& state, int ranks, PeerBuffers& buffers, CopyEngineLock& lock,
                             const WaitLimits& limits)
    : rank_(state.rank()),
      buffers_(buffers),
      lock_(lock),
      agreement_(state.agreement_memory(), state.rank(), ranks),
      ranks_(ranks),
      conditions_(state, {}, limits) {}

bool ZeroCopyCalls::propose(const CopyProgram& program, const void* input, const void* output, cudaStream_t stream,
                            bool willing) {
  captured_ = is_captured(stream);
  if (conditions_.sharing() == ProcessSharing::kSome || !agreement_.begin(captured_)) return false;
  program_ = &program;
  call_ = {};
  call_.use.is_captured = captured_;
  call_.inputs.assign(static_cast<size_t>(ranks_), nullptr);
  call_.outputs = call_.inputs;
  call_.inputs[static_cast<size_t>(rank_)] = static_cast<const std::byte*>(input);
  Proposal ours;
  Places places;
  CopyEngineLockGuard guard(lock_);
  ours.call = signature(program.call);
  ours.willing = willing && is_willing(program, input, output, stream, places);
  static_assert(sizeof(places) <= sizeof(ours.data) && std::is_trivially_copyable_v<Places>);
  std::memcpy(ours.data.data(), &places, sizeof(places));
  agreement_.propose(ours);
  return guard.keeps = true;
}

bool ZeroCopyCalls::vote(std::chrono::nanoseconds timeout) {
  CopyEngineLockGuard guard(lock_);
  const auto can = [&](std::span<const Proposal> proposals) { return find_buffers(*program_, proposals); };
  guard.keeps = agreement_.vote(captured_ ? std::max(timeout, kTimeoutInCapture) : timeout, can);
  if (!guard.keeps) conditions_.note_late();
  return guard.keeps;
}

std::optional<ZeroCopyCall> ZeroCopyCalls::commit() {
  CopyEngineLockGuard guard(lock_);
  guard.keeps = conditions_.is_agreed(agreement_.commit(conditions_.poll_for("all ranks")));
  if (!guard.keeps) {
    call_ = {};
    return std::nullopt;
  }
  call_.agreement = agreement_.number();
  return std::move(call_);
}

bool ZeroCopyCalls::is_willing(const CopyProgram& program, const void* input, const void* output, cudaStream_t stream,
                               Places& places) {
  if (!program.in_place && overlap(input, program.input_bytes, output, program.output_bytes)) {
    conditions_.note("it is in place, where a rank would overwrite what others have yet to read");
    return false;
  }
  if (program.only_aligned && !(begins_at_vector(input) && begins_at_vector(output))) {
    conditions_.note("buffers are not 16-byte aligned, and then all SMs combine faster than a few");
    return false;
  }
  if (program.input_is_read) {
    places.input = buffers_.place_of(input, program.input_bytes);
    if (!conditions_.can_be_mapped(places.input)) return false;
  }
  // SMs and other GPUs' copy engines are slower when both copy at once from an allocation that is no multiple of
  // 64 KiB: by a fifth to a half, against either alone (docs/notes/zero_copy.md).
  const bool is_odd = program.input_is_read && !places.input.size_in_64_kib;
  if (is_odd && program.only_even && !program.by_one_kernel && copies_own_block(program, input, output)) {
    conditions_.note("the size of the input's allocation is no multiple of 64 KiB, and then kernels are faster");
    return false;
  }
  if (program.output_is_read) {
    places.output = buffers_.place_of(output, program.output_bytes);
    if (!conditions_.can_be_mapped(places.output)) return false;
  }
  return program.by_one_kernel || conditions_.try_lock(lock_, stream);
}

bool ZeroCopyCalls::find_buffers(const CopyProgram& program, std::span<const Proposal> proposals) {
  const auto find = [&](int rank, BufferPlace Places::* which, std::vector<const std::byte*>& found) {
    const auto from = static_cast<size_t>(rank);
    if (found[from] != nullptr) return;
    Places places;
    std::memcpy(&places, proposals[from].data.data(), sizeof(places));
    found[from] = buffers_.map(rank, places.*which, call_.use);
  };
  try {
    if (program.reduce) {
      for (const DeviceSource& source : program.reduce->sources) find(source.rank, &Places::input, call_.inputs);
    }
    for (const CopyQueue& queue : program.queues) {
      for (const DeviceCopy& copy : queue.copies) {
        program.reduce ? find(copy.from_rank, &Places::output, call_.outputs)
                       : find(copy.from_rank, &Places::input, call_.inputs);
      }
    }
    return true;
  } catch (const std::exception& error) {
    conditions_.note(error.what());
    return false;
  }
}

}  // namespace plait
