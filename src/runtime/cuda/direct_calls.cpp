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
      offers_of_calls_(state.offers(), state.rank(), ranks),
      offers_of_captured_(state.offers() + Offers::bytes_for(ranks), state.rank(), ranks),
      ranks_(ranks),
      options_(options),
      is_possible_(!state.shares_process()) {}

std::optional<DirectCall> DirectCalls::agree(const CopyProgram& program, const void* input, const void* output,
                                             bool captured, std::chrono::nanoseconds patience) {
  Words ours;
  ours.call = signature(program.call);
  ours.calls = calls_++;
  ours.captured_calls = captured_calls_;
  if (captured) ++captured_calls_;
  if (!is_possible_) return std::nullopt;

  TurnBack turn(turn_);
  ours.willing = is_willing(program, input, output, ours.input);
  Offer offer = {};
  static_assert(sizeof(Words) <= kOfferBytes && std::is_trivially_copyable_v<Words>);
  std::memcpy(offer.data(), &ours, sizeof(Words));
  Offers& offers = captured ? offers_of_captured_ : offers_of_calls_;
  if (!offers.put(offer)) return std::nullopt;
  if (!offers.all_put(captured ? std::max(patience, kPatienceInCapture) : patience)) {
    note("not all ranks came to it in time");
    return std::nullopt;
  }
  DirectCall call;
  call.inputs.assign(static_cast<size_t>(ranks_), nullptr);
  call.inputs[static_cast<size_t>(state_.rank())] = static_cast<const std::byte*>(input);
  call.number = 2 * offers.meeting() + (captured ? 1 : 0);
  offers.answer(find_inputs(program, offers, ours, call));
  const Deadline deadline = Deadline::after(options_.timeout_seconds);
  if (!offers.all_can([&] { look(state_, deadline); })) return std::nullopt;
  turn.agreed = true;
  return call;
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

// Every rank looks at what all others say, so that all find the same; only what cannot be mapped is one rank's to know.
// It always answers: others wait for that.
bool DirectCalls::find_inputs(const CopyProgram& program, const Offers& offers, const Words& ours, DirectCall& call) {
  try {
    const std::vector<Words> all = words_of_all(offers);
    bool all_willing = true;
    for (const Words& theirs : all) {
      all_willing = all_willing && theirs.willing && theirs.call == ours.call;
      // Else some rank captured what another one made at once, and this meeting may be of different calls.
      const bool in_step = theirs.calls == ours.calls && theirs.captured_calls == ours.captured_calls;
      is_possible_ = is_possible_ && in_step;
    }
    if (!is_possible_) note("some rank captures calls that another one makes at once; none will be any more");
    if (!all_willing) note("some rank cannot, or makes another call");
    if (!all_willing || !is_possible_) return false;
    for (const CopyLane& lane : program.lanes) {
      for (const DeviceCopy& copy : lane.copies) {
        const auto from = static_cast<size_t>(copy.from_rank);
        if (call.inputs[from] == nullptr) call.inputs[from] = buffers_.map(copy.from_rank, all[from].input);
      }
    }
    return true;
  } catch (const std::exception& error) {
    note(error.what());
    return false;
  }
}

std::vector<DirectCalls::Words> DirectCalls::words_of_all(const Offers& offers) const {
  std::vector<Words> all(static_cast<size_t>(ranks_));
  for (int rank = 0; rank < ranks_; ++rank) {
    const Offer offer = offers.of(rank);
    std::memcpy(&all[static_cast<size_t>(rank)], offer.data(), sizeof(Words));
  }
  return all;
}

void DirectCalls::note(const std::string& why) {
  if (!options_.log.shows(LogLevel::kInfo) || !noted_.insert(why).second) return;
  options_.log.info("a call does not go straight from buffer to buffer: ", why);
}

}  // namespace plait
