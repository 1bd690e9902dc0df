#include "runtime/cuda/direct_calls.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/deadline.hpp"
#include "base/error.hpp"

namespace plait {
namespace {

// Capturing is done once and need not be fast.
constexpr std::chrono::nanoseconds kPatienceInCapture = std::chrono::milliseconds(100);

bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return x < y + b_bytes && y < x + a_bytes;
}

// Throws what ended the communicator, also where it is this rank's having waited for too long.
void look(CommunicatorState& state, const Deadline& deadline) {
  if (!state.has_failed() && deadline.passed()) {
    state.abort(ErrorCode::kTimeout, join("rank ", state.rank(),
                                          " waited longer than PLAIT_TIMEOUT_SEC allows for all ranks to say whether "
                                          "they can map each other's buffers; ",
                                          state.describe()));
  }
  if (state.has_failed()) throw *state.failure();
}

}  // namespace

DirectCalls::DirectCalls(CommunicatorState& state, int ranks, PeerBuffers& buffers, CopyEngines& engines,
                         double timeout_seconds)
    : state_(state),
      buffers_(buffers),
      engines_(engines),
      offers_(state.offers(), state.rank(), ranks),
      ranks_(ranks),
      timeout_seconds_(timeout_seconds),
      is_possible_(!state.shares_process()) {}

std::optional<DirectCalls::Inputs> DirectCalls::agree(const CopyProgram& program, const void* input, const void* output,
                                                      bool captured, std::chrono::nanoseconds patience) {
  Words ours;
  ours.call = signature(program.call);
  ours.captured = captured;
  ours.captured_calls = captured_calls_;
  if (captured) ++captured_calls_;
  if (!is_possible_) return std::nullopt;
  ours.willing = can_offer(program, input, output, ours.input);
  Offer offer = {};
  static_assert(sizeof(Words) <= kOfferBytes && std::is_trivially_copyable_v<Words>);
  std::memcpy(offer.data(), &ours, sizeof(Words));
  Inputs inputs(static_cast<size_t>(ranks_), nullptr);
  if (offers_.put(offer) && offers_.all_put(captured ? std::max(patience, kPatienceInCapture) : patience) &&
      all_agree(program, ours, input, inputs)) {
    return inputs;
  }
  engines_.give_back();
  return std::nullopt;
}

bool DirectCalls::can_offer(const CopyProgram& program, const void* input, const void* output, BufferPlace& place) {
  if (!program.in_place && overlap(input, program.input_bytes, output, program.output_bytes)) return false;
  if (program.is_copied_from) {
    place = buffers_.place_of(input, program.input_bytes);
    if (!place.can_be_mapped) return false;
  }
  return engines_.take();
}

// Every rank looks at what all others say, so that all find the same; only what cannot be mapped is one rank's to know.
bool DirectCalls::all_agree(const CopyProgram& program, const Words& ours, const void* input, Inputs& inputs) {
  const std::vector<Words> all = words_of_all();
  bool good = true;
  for (const Words& theirs : all) {
    good = good && theirs.willing && theirs.call == ours.call;
    const bool in_step = theirs.captured == ours.captured && theirs.captured_calls == ours.captured_calls;
    is_possible_ = is_possible_ && in_step;
  }
  inputs[static_cast<size_t>(state_.rank())] = static_cast<const std::byte*>(input);
  offers_.answer(good && is_possible_ && map_all(program, all, inputs));
  const Deadline deadline = Deadline::after(timeout_seconds_);
  return offers_.all_can([&] { look(state_, deadline); });
}

std::vector<DirectCalls::Words> DirectCalls::words_of_all() const {
  std::vector<Words> all(static_cast<size_t>(ranks_));
  for (int rank = 0; rank < ranks_; ++rank) {
    const Offer offer = offers_.of(rank);
    std::memcpy(&all[static_cast<size_t>(rank)], offer.data(), sizeof(Words));
  }
  return all;
}

bool DirectCalls::map_all(const CopyProgram& program, const std::vector<Words>& all, Inputs& inputs) {
  try {
    for (const CopyLane& lane : program.lanes) {
      for (const DeviceCopy& copy : lane.copies) {
        const auto from = static_cast<size_t>(copy.from_rank);
        if (inputs[from] == nullptr) inputs[from] = buffers_.map(copy.from_rank, all[from].input);
      }
    }
    return true;
  } catch (const Error&) {
    return false;  // what cannot be mapped is reached in another way
  }
}

}  // namespace plait
