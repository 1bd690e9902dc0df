// From a lane's program to a stream of words.
#include "runtime/cuda/flagged_program.hpp"

#include <algorithm>
#include <bit>

#include "base/error.hpp"
#include "runtime/cuda/device_block.hpp"

namespace plait {
namespace {

class StreamWriter {
 public:
  StreamWriter(const LaneProgram& program, Protocol protocol, std::span<std::byte* const> blocks)
      : program_(program),
        blocks_(blocks),
        stored_at_(protocol == Protocol::kPackets ? BlockLayout::packets_at(0, 0) : BlockLayout::lines_at(0, 0)) {}

  FlaggedProgram run() {
    result_.has_whole_words = program_.slice_bytes % sizeof(uint64_t) == 0;
    result_.last = add(program_.last[0]);
    const bool same = program_.full[0].first == program_.last[0].first;
    result_.full = same ? result_.last : add(program_.full[0]);
    return std::move(result_);
  }

 private:
  SliceProgram add(const SliceProgram& from) {
    SliceProgram to = from;
    to.first = static_cast<uint16_t>(result_.words.size());
    steps_ = 0;
    for (int i = 0; i < from.count; ++i) {
      const DeviceOperation& operation = program_.operations[from.first + i];
      if (operation.is_done_before) continue;
      if (operation.together > 1) {
        for (int c = 0; c < operation.together; c += kMostGroup) {
          add_copies(operation, c, std::min<int>(operation.together - c, kMostGroup));
        }
      } else {
        add_fold(operation);
      }
    }
    to.count = static_cast<uint16_t>(steps_);
    return to;
  }

  void add_fold(const DeviceOperation& operation) {
    begin_step(operation, operation.sources, operation.destinations, false);
    for (int s = 0; s < operation.sources; ++s) add(program_.places[operation.first + operation.destinations + s]);
    for (int d = 0; d < operation.destinations; ++d) add(program_.places[operation.first + d]);
  }

  // Of copies performed together; in the lane's program destination and source take turns.
  void add_copies(const DeviceOperation& operation, int first, int count) {
    begin_step(operation, count, count, true);
    for (int c = first; c < first + count; ++c) add(program_.places[operation.first + 2 * c + 1]);
    for (int c = first; c < first + count; ++c) add(program_.places[operation.first + 2 * c]);
  }

  void begin_step(const DeviceOperation& operation, int sources, int destinations, bool copies) {
    const int most = std::max(sources, destinations);
    if (operation.divisor > UINT8_MAX || most > kMostGroup || result_.words.size() > UINT16_MAX / 2) {
      fail(ErrorCode::kResources, "a step with ", most, " places, or a program of ", result_.words.size(),
           " words, is too much for a launch with flags in its data; use PLAIT_LAUNCH=signals:… for this algorithm");
    }
    FlaggedStep step;
    step.elements = operation.elements;
    step.copies = copies;
    step.sources = static_cast<uint8_t>(sources);
    step.destinations = static_cast<uint8_t>(destinations);
    step.divisor = static_cast<uint8_t>(operation.divisor);
    while (1 << result_.group_shift < most) ++result_.group_shift;
    result_.words.push_back(std::bit_cast<uint64_t>(step));
    ++steps_;
  }

  void add(const DevicePlace& place) {
    if (place.base >= kFirstScratchBase) {
      const auto block = reinterpret_cast<uintptr_t>(blocks_[place.base - kFirstScratchBase]);
      result_.words.push_back((block + stored_at_ + place.offset) | kFlaggedAddress);
      return;
    }
    result_.callers.push_back({static_cast<uint16_t>(result_.words.size()), place.base == kOutputBase, place.offset});
    result_.has_whole_words &= place.offset % sizeof(uint64_t) == 0;
    result_.words.push_back(0);
  }

  const LaneProgram& program_;
  const std::span<std::byte* const> blocks_;
  const size_t stored_at_;
  int steps_ = 0;  // of the slice at hand
  FlaggedProgram result_;
};

}  // namespace

FlaggedProgram make_flagged_program(const LaneProgram& program, Protocol protocol, std::span<std::byte* const> blocks) {
  return StreamWriter(program, protocol, blocks).run();
}

}  // namespace plait
