#include "runtime/cuda/direct_calls.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/overlap.hpp"

namespace plait {
namespace {

static_assert(kMostOfferingRanks >= kMostDeviceRanks);

}  // namespace

DirectCalls::DirectCalls(CommunicatorState& state, int ranks, PeerBuffers& buffers, CopyTurn& turn,
                         const AgreementWatch::Options& options)
    : rank_(state.rank()),
      buffers_(buffers),
      turn_(turn),
      is_possible_(!state.shares_process()),
      meetings_(state.offers(), state.rank(), ranks),
      ranks_(ranks),
      watch_(state, {}, options) {}

std::optional<DirectCall> DirectCalls::agree(const CopyProgram& program, const void* input, const void* output,
                                             bool captured, std::chrono::nanoseconds patience) {
  if (!is_possible_ || !meetings_.begin_call(captured)) return std::nullopt;

  TurnBack turn(turn_);
  Proposal ours;
  BufferPlace place;
  ours.call = signature(program.call);
  ours.willing = is_willing(program, input, output, place);
  static_assert(sizeof(place) <= sizeof(ours.words) && std::is_trivially_copyable_v<BufferPlace>);
  std::memcpy(ours.words.data(), &place, sizeof(place));
  DirectCall call;
  call.inputs.assign(static_cast<size_t>(ranks_), nullptr);
  call.inputs[static_cast<size_t>(rank_)] = static_cast<const std::byte*>(input);
  const auto can = [&](std::span<const Proposal> proposals) { return find_inputs(program, proposals, call); };
  if (captured) patience = std::max(patience, kPatienceInCapture);
  if (!watch_.have_agreed(meetings_.agree(ours, patience, can, watch_.look("all ranks")))) return std::nullopt;
  call.agreements.assign(program.lanes.size(), meetings_.agreement());
  turn.agreed = true;
  return call;
}

bool DirectCalls::is_willing(const CopyProgram& program, const void* input, const void* output, BufferPlace& place) {
  if (!program.in_place && overlap(input, program.input_bytes, output, program.output_bytes)) {
    watch_.note("it is in place, where a rank would overwrite what others have yet to read");
    return false;
  }
  if (program.is_copied_from) {
    place = buffers_.place_of(input, program.input_bytes);
    if (!watch_.can_be_mapped(place)) return false;
  }
  return program.by_one_kernel || watch_.takes(turn_);
}

bool DirectCalls::find_inputs(const CopyProgram& program, std::span<const Proposal> proposals, DirectCall& call) {
  try {
    for (const CopyLane& lane : program.lanes) {
      for (const DeviceCopy& copy : lane.copies) {
        const auto from = static_cast<size_t>(copy.from_rank);
        if (call.inputs[from] != nullptr) continue;
        BufferPlace place;
        std::memcpy(&place, proposals[from].words.data(), sizeof(place));
        call.inputs[from] = buffers_.map(copy.from_rank, place);
      }
    }
    return true;
  } catch (const std::exception& error) {
    watch_.note(error.what());
    return false;
  }
}

}  // namespace plait
