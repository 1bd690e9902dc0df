#include "runtime/cuda/direct_calls.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/deadline.hpp"
#include "base/error.hpp"
#include "base/overlap.hpp"

namespace plait {
namespace {

static_assert(kMostOfferingRanks >= kMostDeviceRanks);

// Capturing is done once and need not be fast.
constexpr std::chrono::nanoseconds kPatienceInCapture = std::chrono::milliseconds(100);

// Throws what ended the communicator, also where it is this rank's having waited for too long.
void look(CommunicatorState& state, const Deadline& deadline) {
  if (!state.has_failed() && deadline.passed()) {
    state.abort(
        ErrorCode::kTimeout,
        join("rank ", state.rank(),
             " waited longer than PLAIT_TIMEOUT_SEC allows for all ranks to say whether they can map each other's "
             "buffers; ",
             state.describe()));
  }
  if (state.has_failed()) throw *state.failure();
}

// Gives the turn back where nothing is agreed on, whatever the reason.
class TurnBack {
 public:
  explicit TurnBack(CopyTurn& turn) : turn_(turn) {}
  ~TurnBack() {
    if (!agreed) turn_.give_back();
  }
  TurnBack(const TurnBack&) = delete;
  TurnBack& operator=(const TurnBack&) = delete;
  bool agreed = false;

 private:
  CopyTurn& turn_;
};

}  // namespace

DirectCalls::DirectCalls(CommunicatorState& state, int ranks, PeerBuffers& buffers, CopyTurn& turn,
                         const Options& options)
    : state_(state),
      buffers_(buffers),
      turn_(turn),
      is_possible_(!state.shares_process()),
      meetings_(state.offers(), state.rank(), ranks),
      ranks_(ranks),
      options_(options) {}

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
  call.inputs[static_cast<size_t>(state_.rank())] = static_cast<const std::byte*>(input);
  const auto can = [&](std::span<const Proposal> proposals) { return find_inputs(program, proposals, call); };
  std::optional<Deadline> deadline;  // from the first look on
  const auto look_after = [&] {
    if (!deadline) deadline = Deadline::after(options_.timeout_seconds);
    look(state_, *deadline);
  };
  if (captured) patience = std::max(patience, kPatienceInCapture);
  switch (meetings_.agree(ours, patience, can, look_after)) {
    case Meetings::Outcome::kAgreed:
      call.number = meetings_.agreement();
      turn.agreed = true;
      return call;
    case Meetings::Outcome::kNotTried:
      break;
    case Meetings::Outcome::kLate:
      note("not all ranks came to it in time");
      break;
    case Meetings::Outcome::kRefused:
      note("some rank cannot, or makes another call");
      break;
    case Meetings::Outcome::kOutOfStep:
      note("some rank captures calls that another one makes at once; none will be any more");
      break;
  }
  return std::nullopt;
}

bool DirectCalls::is_willing(const CopyProgram& program, const void* input, const void* output, BufferPlace& place) {
  if (!program.in_place && overlap(input, program.input_bytes, output, program.output_bytes)) {
    note("it is in place, where a rank would overwrite what others have yet to read");
    return false;
  }
  if (program.is_copied_from) {
    place = buffers_.place_of(input, program.input_bytes);
    if (!place.can_be_mapped) {
      note("the input is not memory of cudaMalloc on this GPU, or too many allocations are exported");
      return false;
    }
  }
  if (program.by_one_kernel || turn_.take()) return true;
  note("another communicator of this process has copies under way on this GPU, or captured some");
  return false;
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
    note(error.what());
    return false;
  }
}

void DirectCalls::note(const std::string& why) {
  if (!options_.log.shows(LogLevel::kInfo) || !noted_.insert(why).second) return;
  options_.log.info("a call does not go straight from buffer to buffer: ", why);
}

}  // namespace plait
